"""Gated MLP without its down projection."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from draftwalk.layers.parts import Builder
from draftwalk.ops import Activation, Linear, Operations


@dataclass(frozen=True, slots=True)
class GatedMlp:
    """Gate and up projections, and the activation between them."""

    gate: Linear
    up: Linear
    activation: Activation

    @staticmethod
    def build(
        builder: Builder, name: str, width: int, inner: int, activation: Activation, bias: bool
    ) -> GatedMlp:
        """Takes the weights of an MLP of `inner` values."""
        return GatedMlp(
            builder.linear(f"{name}.gate_proj", inner, width, bias),
            builder.linear(f"{name}.up_proj", inner, width, bias),
            activation,
        )

    def run(self, ops: Operations, u: Tensor) -> Tensor:
        """[T, H] normed rows to [T, F]."""
        return ops.gated(u, self.gate, self.up, self.activation)
