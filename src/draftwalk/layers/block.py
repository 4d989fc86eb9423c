"""One layer of a target or drafter: a sublayer of attention, then one of an MLP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from draftwalk.layers.attention import Attention
from draftwalk.layers.mlp import GatedMlp
from draftwalk.layers.sublayer import Sublayer
from draftwalk.ops import Operations
from draftwalk.ops.memory import KVContext, KVPages
from draftwalk.rows import Rows


@dataclass(frozen=True, slots=True)
class Block:
    """The parts of one layer."""

    attention: Attention
    around_attention: Sublayer
    mlp: GatedMlp
    around_mlp: Sublayer

    def run(self, ops: Operations, x: Tensor, kv: KVPages | KVContext, rows: Rows) -> Tensor:
        """[T, H] to [T, H]."""
        attend = partial(self.attention.run, ops, into=kv, rows=rows)
        x = self.around_attention.run(ops, x, attend, rows)
        return self.around_mlp.run(ops, x, partial(self.mlp.run, ops), rows)
