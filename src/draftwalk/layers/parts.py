"""Building parts from a checkpoint's tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.ops import HeadNorm, Linear, Operations
from draftwalk.weights.source import TensorSource
from draftwalk.weights.tensor import permute_rows


@dataclass(frozen=True, slots=True)
class Builder:
    """Takes weights by name.

    Attributes:
        tensors: where they come from.
        ops: the back end they are for.
        norm_eps: epsilon of norms.
        norm_offset: added to every norm weight as stored.
    """

    tensors: TensorSource
    ops: Operations
    norm_eps: float
    norm_offset: float = 0.0

    def norm(self, name: str, size: int) -> Tensor:
        """The weight of a norm."""
        return self.ops.vector(self.tensors.take(f"{name}.weight", (size,)), self.norm_offset)

    def head_norm(self, name: str, size: int, order: NDArray[np.intp] | None = None) -> HeadNorm:
        """A norm of heads, its weight put into `order`, if given."""
        raw = self.tensors.take(f"{name}.weight", (size,))
        raw = raw if order is None else permute_rows(raw, order)
        return HeadNorm(self.ops.vector(raw, self.norm_offset), self.norm_eps)

    def linear(
        self,
        name: str,
        outputs: int,
        inputs: int,
        bias: bool = False,
        order: NDArray[np.intp] | None = None,
    ) -> Linear:
        """A matrix with its bias, rows put into `order`, if given."""
        weight = self.tensors.take(f"{name}.weight", (outputs, inputs))
        offset = self.tensors.take(f"{name}.bias", (outputs,)) if bias else None
        if order is not None:
            weight = permute_rows(weight, order)
            offset = None if offset is None else permute_rows(offset, order)
        return Linear(self.ops.matrix(weight), None if offset is None else self.ops.vector(offset))
