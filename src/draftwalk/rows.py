"""The row table: everything one pass of a model needs to know about its rows.

A pass takes rows of several sequences, ragged and without padding. Rows of one sequence stand
together (a `Span`); its first row continues what the sequence's state has committed. `place` is the
index of a row's K/V in its sequence, `position` is what rope sees: the same number for text, not
after an image. Visibility follows from the table: a row sees the places of its sequence below
`context`, and the rows of its own span (a layer says whether causally or both ways, and how far
back).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Wanted = Literal["none", "last", "drafted", "all"]


@dataclass(frozen=True, slots=True)
class Rowset:
    """Rows one sequence contributes to a pass, before they are laid out.

    Args:
        sequence: the slot of the sequence in the model's state.
        tokens: token ids; `-1 - e` stands for row `e` of the pass's embeddings.
        context: places of the sequence that its state has committed; the rows follow them.
        wanted: which of the rows need logits; "drafted" are all but the first, the anchor.
        positions: rope positions, a plane or four of one number a row; `None` when they are the
            places.
        parents: the row each row follows, counted in this entry, -1 for what is committed; `None`
            when it is the one before.
    """

    sequence: int
    tokens: Sequence[int]
    context: int
    wanted: Wanted = "all"
    positions: Sequence[Sequence[int]] | None = None
    parents: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Where the rows of one sequence stand in a pass: rows `start` to `stop`, after `context`."""

    sequence: int
    start: int
    stop: int
    context: int

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.stop - self.start


@dataclass(slots=True)
class Table:
    """Whole numbers on the host; on the device as well, once somebody asks for them there.

    A back end that takes them from the host spares itself a tensor for every pass.

    Attributes:
        numbers: on the host.
        device: where the tensor will be.
    """

    numbers: Sequence[int]
    device: torch.device
    _tensor: Tensor | None = None

    @staticmethod
    def viewing(tensor: Tensor) -> Table:
        """Numbers that are known on the device only."""
        return Table((), tensor.device, tensor)

    @property
    def tensor(self) -> Tensor:
        """int64."""
        if self._tensor is None:
            # numpy reads a list several times as fast as torch does.
            self._tensor = torch.from_numpy(np.array(self.numbers, np.int64)).to(self.device)
        return self._tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one pass, T in all, W of them with logits.

    Attributes:
        spans: the sequences' rows, in order, on the host.
        shape: T, P and W.
        table: all columns one after the other, as the properties name them; then every span's
            sequence, start, stop and context.
        embeddings: [E, H] rows that replace token embeddings, if any.
    """

    spans: tuple[Span, ...]
    shape: tuple[int, int, int]
    table: Table
    embeddings: Tensor | None = None

    @property
    def size(self) -> int:
        """Number of rows, T."""
        return self.shape[0]

    @property
    def tokens(self) -> Tensor:
        """[T] token ids; `-1 - e` is row `e` of `embeddings`."""
        return self.table.tensor[: self.size]

    @property
    def sequences(self) -> Tensor:
        """[T] slot of each row's sequence."""
        return self.table.tensor[self.size : 2 * self.size]

    @property
    def places(self) -> Tensor:
        """[T] index of the row's K/V in its sequence."""
        return self.table.tensor[2 * self.size : 3 * self.size]

    @property
    def parents(self) -> Tensor:
        """[T] the row before it in its span, -1 for the first."""
        return self.table.tensor[3 * self.size : 4 * self.size]

    @property
    def positions(self) -> Tensor:
        """[P, T] rope positions, one plane (four for M-RoPE)."""
        T, P, _ = self.shape
        return self.table.tensor[4 * T : (4 + P) * T].view(P, T)

    @property
    def wanted(self) -> Tensor:
        """[W] rows whose logits are wanted, ascending."""
        T, P, W = self.shape
        start = (4 + P) * T
        return self.table.tensor[start : start + W]

    @staticmethod
    def lay_out(
        rowsets: Sequence[Rowset], device: torch.device, embeddings: Tensor | None = None
    ) -> Rows:
        """Lays the sequences' rows out one after the other.

        Args:
            rowsets: one entry a sequence; no sequence twice, none without rows.
            device: where the table's tensors live.
            embeddings: [E, H] rows that negative token ids refer to.
        """
        spans: list[Span] = []
        tokens: list[int] = []
        sequences: list[int] = []
        places: list[int] = []
        parents: list[int] = []
        wanted: list[int] = []
        planes: list[list[int]] = []
        ends: list[int] = []
        for rowset in rowsets:
            start, size = len(tokens), len(rowset.tokens)
            stop = start + size
            assert size > 0, "a sequence without rows has no place in a pass"
            spans.append(Span(rowset.sequence, start, stop, rowset.context))
            ends += (rowset.sequence, start, stop, rowset.context)
            tokens += rowset.tokens
            sequences += [rowset.sequence] * size
            own = range(rowset.context, rowset.context + size)
            places += own
            parents += _parents(rowset, start)
            positions = (own,) if rowset.positions is None else rowset.positions
            planes = planes or [[] for _ in positions]
            for plane, part in zip(planes, positions, strict=True):
                assert len(part) == size, "every row has a position"
                plane += part
            wanted += range(*_WANTED[rowset.wanted](start, stop))
        assert len({span.sequence for span in spans}) == len(spans), "a sequence stands in one span"
        numbers = tokens + sequences + places + parents
        for plane in planes:
            numbers += plane
        shape = (len(tokens), len(planes), len(wanted))
        return Rows(tuple(spans), shape, Table(numbers + wanted + ends, device), embeddings)


def _parents(rowset: Rowset, start: int) -> Iterable[int]:
    """The row before each of an entry's rows, counted in the pass."""
    size = len(rowset.tokens)
    if rowset.parents is None:
        return (-1, *range(start, start + size - 1))
    assert len(rowset.parents) == size, "every row has a parent"
    return [start + parent if parent >= 0 else -1 for parent in rowset.parents]


_WANTED: Mapping[Wanted, Callable[[int, int], tuple[int, int]]] = {
    "none": lambda start, stop: (start, start),
    "last": lambda start, stop: (stop - 1, stop),
    "drafted": lambda start, stop: (start + 1, stop),
    "all": lambda start, stop: (start, stop),
}
