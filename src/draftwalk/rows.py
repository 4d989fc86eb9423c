"""The row table: everything one pass of a model needs to know about its rows.

A pass takes rows of several sequences, ragged and without padding. Rows of one sequence stand
together (a `Span`); its first row continues what the sequence's state has committed. `place` is the
index of a row's K/V in its sequence, `position` is what rope sees: the same number for text, not
after an image. Visibility follows from the table: a row sees the places of its sequence below
`context`, and the rows of its own span (a layer says whether causally or both ways, and how far
back).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

Wanted = Literal["none", "last", "all"]


@dataclass(frozen=True, slots=True)
class Rowset:
    """Rows one sequence contributes to a pass, before they are laid out.

    Args:
        sequence: the slot of the sequence in the model's state.
        tokens: token ids; `-1 - e` stands for row `e` of the pass's embeddings.
        context: places of the sequence that its state has committed; the rows follow them.
        wanted: which of the rows need logits.
        position: rope position of the first row; `None` when it equals the place.
    """

    sequence: int
    tokens: Sequence[int]
    context: int
    wanted: Wanted = "all"
    position: int | None = None


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
        contexts: [T] int64, places of the sequence that the row sees through the state.
        parents: [T] int64, the row before it in its span, -1 for the first.
        wanted: [W] int64, rows whose logits are wanted, ascending.
        embeddings: [E, H] rows that replace token embeddings, if any.
    """

    spans: tuple[Span, ...]
    tokens: Tensor
    sequences: Tensor
    places: Tensor
    positions: Tensor
    contexts: Tensor
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
        columns: list[tuple[int, int, int, int, int, int]] = []
        wanted: list[int] = []
        for rowset in rowsets:
            start, size = len(columns), len(rowset.tokens)
            assert size > 0, "a sequence without rows has no place in a pass"
            spans.append(Span(rowset.sequence, start, start + size, rowset.context))
            first = rowset.context if rowset.position is None else rowset.position
            for i, token in enumerate(rowset.tokens):
                parent = start + i - 1 if i else -1
                place = rowset.context + i
                columns.append((token, rowset.sequence, place, first + i, rowset.context, parent))
            if rowset.wanted == "all":
                wanted.extend(range(start, start + size))
            elif rowset.wanted == "last":
                wanted.append(start + size - 1)
        assert len({span.sequence for span in spans}) == len(spans), "a sequence stands in one span"
        table = torch.tensor(columns, dtype=torch.int64).reshape(-1, 6).T.contiguous().to(device)
        return Rows(
            spans=tuple(spans),
            tokens=table[0],
            sequences=table[1],
            places=table[2],
            positions=table[3:4],
            contexts=table[4],
            parents=table[5],
            wanted=torch.tensor(wanted, dtype=torch.int64, device=device),
            embeddings=embeddings,
        )
