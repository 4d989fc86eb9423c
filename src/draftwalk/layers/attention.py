"""Attention without its output projection: rows in, heads out, K/V remembered on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.layers.parts import Builder
from draftwalk.ops import HeadNorm, Linear, Operations, RopeTable, Visibility
from draftwalk.ops.memory import KVContext, KVPages, KVTensors
from draftwalk.rows import Rows


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes: N query heads, G key/value heads, D values each, and whether there are biases."""

    queries: int
    keys: int
    size: int
    bias: bool


@dataclass(frozen=True, slots=True)
class Attention:
    """Projections, norms and rope of one layer, and what its rows see."""

    heads: Heads
    q: Linear
    k: Linear
    v: Linear
    q_norm: HeadNorm | None
    k_norm: HeadNorm | None
    rope: RopeTable
    sees: Visibility

    @staticmethod
    def build(
        builder: Builder,
        name: str,
        width: int,
        heads: Heads,
        rope: RopeTable,
        sees: Visibility,
        normed: bool,
        order: NDArray[np.intp] | None = None,
    ) -> Attention:
        """Takes the weights.

        Args:
            builder: takes them.
            name: prefix of their names.
            width: H.
            heads: sizes.
            rope: rotation.
            sees: visibility.
            normed: heads of q and k have norms.
            order: of the rows of one head, where they are not stored for half-split rotation.
        """

        def per_head(count: int) -> NDArray[np.intp] | None:
            if order is None:
                return None
            rows: NDArray[np.intp] = np.arange(count)[:, None] * heads.size + order
            return rows.reshape(-1)

        queries, keys = heads.queries * heads.size, heads.keys * heads.size
        return Attention(
            heads,
            builder.linear(f"{name}.q_proj", queries, width, heads.bias, per_head(heads.queries)),
            builder.linear(f"{name}.k_proj", keys, width, heads.bias, per_head(heads.keys)),
            builder.linear(f"{name}.v_proj", keys, width, heads.bias),
            builder.head_norm(f"{name}.q_norm", heads.size, order) if normed else None,
            builder.head_norm(f"{name}.k_norm", heads.size, order) if normed else None,
            rope,
            sees,
        )

    def run(self, ops: Operations, u: Tensor, into: KVPages | KVContext, rows: Rows) -> Tensor:
        """[T, H] normed rows to [T, N * D]."""
        q, k, v = ops.linear(u, (self.q, self.k, self.v))
        q = ops.rotate(q, self.heads.queries, self.q_norm, self.rope, rows)
        kv = ops.remember(k, v, self.heads.keys, self.k_norm, self.rope, into, rows)
        return ops.attend(q, kv, rows, self.sees)

    def inject(
        self, ops: Operations, context: Tensor, into: KVPages | KVContext, rows: Rows
    ) -> KVPages | KVTensors:
        """Remembers K/V of rows that nothing is asked of."""
        k, v = ops.linear(context, (self.k, self.v))
        return ops.remember(k, v, self.heads.keys, self.k_norm, self.rope, into, rows)
