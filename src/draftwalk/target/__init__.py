"""Targets: the models whose text is decoded.

`Target` is all the loop and the drafters know of one. `decoder.py` holds the only forward pass;
each further file declares an architecture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from draftwalk.ops import Matrix
from draftwalk.rows import Rows
from draftwalk.state import State

StateT = TypeVar("StateT", bound=State)


@dataclass(frozen=True, slots=True)
class PassOutput:
    """Buffers of the caller that a pass writes.

    Attributes:
        logits: [W, V], one row for each wanted row of the table.
        features: [T, F * H], outputs of the tapped layers side by side, in the taps' order.
        taps: F layer numbers, 0 for the first layer's output.
    """

    logits: Tensor
    features: Tensor
    taps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SharedTables:
    """What a drafter borrows from its target: embedding and head, both [V, H]."""

    embedding: Matrix
    head: Matrix


class Target(Protocol, Generic[StateT]):
    """A model that verifies."""

    @property
    def vocabulary(self) -> int:
        """Rows of the head, V."""

    @property
    def width(self) -> int:
        """Values per row, H."""

    @property
    def depth(self) -> int:
        """Layers that can be tapped."""

    @property
    def context(self) -> int:
        """Most positions the model was made for."""

    @property
    def tables(self) -> SharedTables:
        """Embedding and head."""

    def new_state(self) -> StateT:
        """An empty memory for any number of sequences."""

    def forward(self, rows: Rows, state: StateT, out: PassOutput) -> None:
        """One pass; the caller brackets it with the state's `begin` and `commit`."""


def new_output(
    rows: Rows, taps: Sequence[int], vocabulary: int, width: int, like: Tensor | torch.dtype
) -> PassOutput:
    """Fresh buffers for one pass."""
    dtype = like if isinstance(like, torch.dtype) else like.dtype
    device = rows.tokens.device
    return PassOutput(
        torch.empty((len(rows.wanted), vocabulary), dtype=dtype, device=device),
        torch.empty((rows.size, len(taps) * width), dtype=dtype, device=device),
        tuple(taps),
    )
