"""The row table: everything one pass of a model needs to know about its rows.

A pass takes rows of several sequences, ragged and without padding. Rows of one sequence stand
together (a `Span`); its first row continues what the sequence's state has committed. `place` is the
index of a row's K/V in its sequence, `position` is what rope sees: the same number for text, not
after an image. Visibility follows from the table: a row sees the places of its sequence below
`context`, and the rows of its own span (a layer says whether causally or both ways, and how far
back).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

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


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one pass, T in all, W of them with logits.

    Attributes:
        spans: the sequences' rows, in order, on the host.
        tokens: [T] int64, token ids; `-1 - e` is row `e` of `embeddings`.
        sequences: [T] int64, slot of each row's sequence.
        places: [T] int64, index of the row's K/V in its sequence.
        positions: [P, T] int64, rope positions, one plane (four for M-RoPE).
        parents: [T] int64, the row before it in its span, -1 for the first.
        wanted: [W] int64, rows whose logits are wanted, ascending.
        embeddings: [E, H] rows that replace token embeddings, if any.
    """

    spans: tuple[Span, ...]
    tokens: Tensor
    sequences: Tensor
    places: Tensor
    positions: Tensor
    parents: Tensor
    wanted: Tensor
    embeddings: Tensor | None = field(default=None)

    @property
    def size(self) -> int:
        """Number of rows, T."""
        return self.spans[-1].stop if self.spans else 0

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
        columns: list[tuple[int, int, int, int]] = []
        planes: list[list[int]] = []
        wanted: list[int] = []
        for rowset in rowsets:
            start, size = len(columns), len(rowset.tokens)
            assert size > 0, "a sequence without rows has no place in a pass"
            spans.append(Span(rowset.sequence, start, start + size, rowset.context))
            places = range(rowset.context, rowset.context + size)
            parents = range(-1, size - 1) if rowset.parents is None else rowset.parents
            for token, place, parent in zip(rowset.tokens, places, parents, strict=True):
                before = start + parent if parent >= 0 else -1
                columns.append((token, rowset.sequence, place, before))
            positions = (places,) if rowset.positions is None else rowset.positions
            planes = planes or [[] for _ in positions]
            for plane, part in zip(planes, positions, strict=True):
                plane.extend(part)
            wanted.extend(range(*_WANTED[rowset.wanted](start, start + size)))
        assert len({span.sequence for span in spans}) == len(spans), "a sequence stands in one span"
        table = torch.tensor(columns, dtype=torch.int64).reshape(-1, 4).T.contiguous().to(device)
        return Rows(
            spans=tuple(spans),
            tokens=table[0],
            sequences=table[1],
            places=table[2],
            parents=table[3],
            positions=torch.tensor(planes, dtype=torch.int64, device=device),
            wanted=torch.tensor(wanted, dtype=torch.int64, device=device),
            embeddings=embeddings,
        )


_WANTED: Mapping[Wanted, Callable[[int, int], tuple[int, int]]] = {
    "none": lambda start, stop: (start, start),
    "last": lambda start, stop: (stop - 1, stop),
    "drafted": lambda start, stop: (start + 1, stop),
    "all": lambda start, stop: (start, stop),
}
