"""Targets: the models whose text is decoded.

`Target` is all the loop and the drafters know of one. `decoder.py` holds the only forward pass;
each further file declares an architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.ops import Matrix, Operations
from draftwalk.quant import Format
from draftwalk.rows import Rows
from draftwalk.state import State
from draftwalk.weights.tensor import RawTensor, narrowed, permute_rows

# Rows by number, as a matrix of their own, in a format if that is narrower than the stored one.
RowPacker = Callable[[NDArray[np.int64], Format], Matrix]
StateT = TypeVar("StateT", bound=State)


@dataclass(frozen=True, slots=True)
class PassOutput:
    """What a pass leaves, valid until the next one of the same shape.

    Attributes:
        logits: [W, V], one row for each wanted row of the table.
        features: [T, F * H], outputs of the tapped layers side by side, in the taps' order.
        greatest: each row's greatest logit [W] and its id [W], if the pass has looked for them.
    """

    logits: Tensor
    features: Tensor
    greatest: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def of(
        rows: Rows,
        logits: Tensor,
        features: Sequence[Tensor],
        greatest: tuple[Tensor, Tensor] | None = None,
    ) -> PassOutput:
        """With no features where no layer was tapped."""
        tapped = features[0] if features else logits.new_empty((rows.size, 0))
        return PassOutput(logits, tapped, greatest)


@dataclass(frozen=True, slots=True)
class SharedTables:
    """What a drafter borrows from its target: embedding and head, both [V, H].

    Attributes:
        embedding: rows by token.
        head: the same, or not.
        head_rows: packs some rows of the head by themselves, where the stored head is known.
    """

    embedding: Matrix
    head: Matrix
    head_rows: RowPacker | None = None


def rows_of(raw: RawTensor, ops: Operations) -> RowPacker:
    """Packs rows of a stored matrix."""
    return lambda numbers, format_: ops.matrix(narrowed(permute_rows(raw, numbers), format_))


class Target(Protocol, Generic[StateT]):
    """A model that verifies."""

    @property
    def ops(self) -> Operations:
        """The back end it runs on."""

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

    def forward(self, rows: Rows, state: StateT, taps: tuple[int, ...]) -> PassOutput:
        """One pass; the caller brackets it with the state's `begin` and `commit`.

        Args:
            rows: the row table.
            state: what the model remembers of their sequences.
            taps: layers whose outputs are wanted, 0 for the first.
        """
