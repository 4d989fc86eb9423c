"""The empty drafter: with it the loop is plain decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.rows import Rows
from draftwalk.state import check_kept


class CountingState:
    """A state that remembers nothing but how many rows were kept, and so can go anywhere."""

    def __init__(self) -> None:
        self._lengths: dict[int, int] = {}
        self._pass: dict[int, int] = {}

    def open(self, sequence: int) -> None:
        """Starts at zero."""
        assert sequence not in self._lengths, f"slot {sequence} is in use"
        self._lengths[sequence] = 0

    def close(self, sequence: int) -> None:
        """Forgets the count."""
        del self._lengths[sequence]

    def begin(self, rows: Rows) -> None:
        """Notes the pass's rows."""
        assert not self._pass, "the last pass was not committed"
        for span in rows.spans:
            assert span.context == self._lengths[span.sequence], "rows continue what is committed"
        self._pass = {span.sequence: span.size for span in rows.spans}

    def commit(self, kept: Mapping[int, int]) -> None:
        """Counts kept rows."""
        assert kept.keys() == self._pass.keys(), "commit names the sequences of the pass"
        check_kept(kept, self._pass)
        for sequence, rows in kept.items():
            self._lengths[sequence] += rows
        self._pass = {}

    def abandon(self) -> None:
        """Forgets the pass."""
        self._pass = {}

    def reachable(self, sequence: int, length: int) -> int:
        """Every length up to the count."""
        return min(length, self._lengths[sequence])

    def truncate(self, sequence: int, length: int) -> int:
        """Goes back."""
        self._lengths[sequence] = self.reachable(sequence, length)
        return self._lengths[sequence]

    def fork(self, source: int, into: int) -> None:
        """Copies the count."""
        self.open(into)
        self._lengths[into] = self._lengths[source]

    def save(self, sequence: int) -> dict[str, Tensor]:
        """The count as a tensor."""
        return {"length": torch.tensor(self._lengths[sequence])}

    def load(self, sequence: int, saved: Mapping[str, Tensor]) -> None:
        """Takes the count back."""
        self.open(sequence)
        self._lengths[sequence] = int(saved["length"])

    def length(self, sequence: int) -> int:
        """The count."""
        return self._lengths[sequence]

    @property
    def bytes(self) -> int:
        """Nothing worth counting."""
        return 0


class EmptyDrafter:
    """Proposes nothing."""

    taps: tuple[int, ...] = ()
    block = 1
    shortens = False
    context = 2**62

    def __init__(self) -> None:
        self.state = CountingState()

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        """No tokens for anyone."""
        return [Draft() for _ in requests]

    def observe(self, rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        """Counts what was kept."""
        self.state.begin(rows)
        self.state.commit(kept)
