"""What stands around attention and MLP: the norm before, the projection out, the sum with x.

Some architectures norm the output before it is added; DFlash2 convolves input and output along the
block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from draftwalk.ops import Linear, Operations
from draftwalk.rows import Rows


@dataclass(frozen=True, slots=True)
class Convolution:
    """DFlash2's convolution around one sublayer: base kernel [2, taps, H] and its projection."""

    base: Tensor
    projection: Linear


@dataclass(frozen=True, slots=True)
class Sublayer:
    """x + out(inner(norm(x))), and what an architecture puts in between."""

    norm: Tensor
    norm_eps: float
    out: Linear
    post_norm: Tensor | None = None
    convolution: Convolution | None = None

    def run(
        self, ops: Operations, x: Tensor, inner: Callable[[Tensor], Tensor], rows: Rows
    ) -> Tensor:
        """[T, H] to [T, H]."""
        u = ops.norm(x, self.norm, self.norm_eps)
        if self.convolution is not None:
            return self._convolved(ops, x, u, inner, self.convolution, rows)
        if self.post_norm is None:
            return ops.linear_residual(inner(u), self.out, x)
        (y,) = ops.linear(inner(u), (self.out,))
        return ops.norm(y, self.post_norm, self.norm_eps, residual=x)

    def _convolved(
        self,
        ops: Operations,
        x: Tensor,
        u: Tensor,
        inner: Callable[[Tensor], Tensor],
        convolution: Convolution,
        rows: Rows,
    ) -> Tensor:
        # Both sides' coefficients come from the sublayer's input, before the first convolution.
        (dynamic,) = ops.linear(u, (convolution.projection,))
        u = ops.convolve(u, dynamic, convolution.base, 0, rows)
        (y,) = ops.linear(inner(u), (self.out,))
        return ops.convolve(y, dynamic, convolution.base, 1, rows, residual=x)
