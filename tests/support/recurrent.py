"""Toy targets with a recurrent layer: states that can only be committed and replayed."""

from collections.abc import Mapping

import torch
from torch import Tensor

from draftwalk.errors import RollbackError
from draftwalk.ops import Matrix, Visibility
from draftwalk.ops.torch import DenseMatrix
from draftwalk.rows import Rows
from draftwalk.state.model import ModelState
from draftwalk.target import PassOutput, SharedTables
from support.models import DOUBLE, new_pages, store

EVERY = 8  # rows between checkpoints


class RecurrentState:
    """One vector per sequence, h = f(h, x), with what a pass computed kept for its commit."""

    bytes = 0

    def __init__(self, width: int) -> None:
        self._width = width
        self._values: dict[int, Tensor] = {}
        self._checkpoints: dict[int, dict[int, Tensor]] = {}
        self._lengths: dict[int, int] = {}
        self._pass: dict[int, int] = {}
        self.after_rows: dict[int, list[Tensor]] = {}  # written by the layer, row by row

    def value(self, sequence: int) -> Tensor:
        return self._values[sequence]

    def open(self, sequence: int) -> None:
        assert sequence not in self._values
        self._values[sequence] = torch.zeros(self._width, dtype=torch.float64)
        self._checkpoints[sequence] = {0: self._values[sequence]}
        self._lengths[sequence] = 0

    def close(self, sequence: int) -> None:
        del self._values[sequence], self._checkpoints[sequence], self._lengths[sequence]

    def length(self, sequence: int) -> int:
        return self._lengths[sequence]

    def begin(self, rows: Rows) -> None:
        assert not self._pass
        for span in rows.spans:
            assert span.context == self._lengths[span.sequence]
        for span in rows.spans:
            self._pass[span.sequence] = span.size
            self.after_rows[span.sequence] = []

    def commit(self, kept: Mapping[int, int]) -> None:
        assert kept.keys() == self._pass.keys()
        for sequence, rows in kept.items():
            computed = self.after_rows[sequence]
            if not 0 <= rows <= len(computed):
                raise RollbackError("rows are kept that the pass did not compute")
            for value in computed[:rows]:
                self._values[sequence] = value
                self._lengths[sequence] += 1
                if self._lengths[sequence] % EVERY == 0:
                    self._checkpoints[sequence][self._lengths[sequence]] = value
        self.abandon()

    def abandon(self) -> None:
        self._pass.clear()
        self.after_rows.clear()

    def reachable(self, sequence: int, length: int) -> int:
        if length >= self._lengths[sequence]:
            return self._lengths[sequence]
        return max(n for n in self._checkpoints[sequence] if n <= length)

    def truncate(self, sequence: int, length: int) -> int:
        length = self.reachable(sequence, length)
        if length != self._lengths[sequence]:
            kept = {n: v for n, v in self._checkpoints[sequence].items() if n <= length}
            self._checkpoints[sequence] = kept
            self._values[sequence] = kept[length]
            self._lengths[sequence] = length
        return length

    def fork(self, source: int, into: int) -> None:
        assert into not in self._values
        self._values[into] = self._values[source]
        self._checkpoints[into] = dict(self._checkpoints[source])
        self._lengths[into] = self._lengths[source]

    def save(self, sequence: int) -> dict[str, Tensor]:
        return {"length": torch.tensor(self._lengths[sequence]), "h": self._values[sequence]}

    def load(self, sequence: int, saved: Mapping[str, Tensor]) -> None:
        self.open(sequence)
        self._values[sequence] = saved["h"]
        self._lengths[sequence] = int(saved["length"])
        self._checkpoints[sequence] = {0: torch.zeros_like(saved["h"])}
        self._checkpoints[sequence][self._lengths[sequence]] = saved["h"]


class RecurrentTarget:
    """Only h = tanh(0.9 h + W x): its next token depends on all it has read, and nothing else."""

    ops = DOUBLE
    depth = 1

    def __init__(self, vocabulary: int = 160, width: int = 48, context: int = 512) -> None:
        draw = torch.Generator().manual_seed(12)
        self.vocabulary, self.width, self.context = vocabulary, width, context
        embedding = torch.randn(vocabulary, width, generator=draw, dtype=torch.float64)
        head = torch.randn(vocabulary, width, generator=draw, dtype=torch.float64)
        self.tables = SharedTables(DenseMatrix(embedding), DenseMatrix(head))
        self._inner = torch.randn(width, width, generator=draw, dtype=torch.float64) / width**0.5

    def new_state(self) -> RecurrentState:
        return RecurrentState(self.width)

    def forward(self, rows: Rows, state: RecurrentState, taps: tuple[int, ...]) -> PassOutput:
        x = run_recurrence(DOUBLE.embed(self.tables.embedding, rows, 1.0), self._inner, state, rows)
        logits = DOUBLE.head(x[rows.wanted], self.tables.head)
        return PassOutput.of(rows, logits, [DOUBLE.join([x] * len(taps))] if taps else [])


def run_recurrence(x: Tensor, inner: Tensor, state: RecurrentState, rows: Rows) -> Tensor:
    """h of every row, which is also left with the state for its commit."""
    for span in rows.spans:
        h = state.value(span.sequence)
        for row in range(span.start, span.stop):
            h = torch.tanh(0.9 * h + inner @ x[row])
            state.after_rows[span.sequence].append(h)
    return torch.stack([h for span in rows.spans for h in state.after_rows[span.sequence]])


class HybridState(ModelState):
    """A recurrent layer beside a sliding one."""

    def __init__(self, width: int, head_dim: int, window: int) -> None:
        self.recurrent = RecurrentState(width)
        self.pages = new_pages(1, 1, head_dim, window)
        super().__init__([self.recurrent, self.pages])


class HybridTarget:
    """One sliding attention layer, then h = tanh(0.9 h + W x), both tapped."""

    ops = DOUBLE
    depth = 2

    def __init__(self, vocabulary: int = 160, width: int = 48, context: int = 256) -> None:
        draw = torch.Generator().manual_seed(11)

        def matrix(rows: int, columns: int) -> Matrix:
            values = torch.randn(rows, columns, generator=draw, dtype=torch.float64)
            return DenseMatrix(values * 2 / columns**0.5)

        self.vocabulary, self.width, self.context = vocabulary, width, context
        self.tables = SharedTables(matrix(vocabulary, width), matrix(vocabulary, width))
        self._qkv = [matrix(16, width) for _ in range(3)]
        self._out = matrix(width, 16)
        self._inner = matrix(width, width)

    def new_state(self) -> HybridState:
        return HybridState(self.width, 16, window=7)

    def forward(self, rows: Rows, state: HybridState, taps: tuple[int, ...]) -> PassOutput:
        x = DOUBLE.embed(self.tables.embedding, rows, 1.0)
        q, k, v = (x @ m.weight.T for m in self._qkv)
        pages = state.pages.layer(0)
        store(k[:, None], v[:, None], pages, rows)
        sees = Visibility(scale=0.25, window=7)
        x = x + DOUBLE.attend(q[:, None], pages, rows, sees) @ self._out.weight.T
        first = x
        x = x + run_recurrence(first, self._inner.weight, state.recurrent, rows)
        logits = DOUBLE.head(x[rows.wanted], self.tables.head)
        return PassOutput.of(
            rows, logits, [DOUBLE.join([(first, x)[t] for t in taps])] if taps else []
        )
