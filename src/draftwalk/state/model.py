"""The state of a whole model: its kinds of layers moved together, as one.

Committing, going back and forking mean the same length for every kind; the model can only go back
as far as all of them can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from draftwalk.rows import Rows
from draftwalk.state import State


class ModelState:
    """Several kinds of state behind the interface of one."""

    def __init__(self, kinds: Sequence[State]) -> None:
        assert kinds, "a model remembers something"
        self.kinds = tuple(kinds)

    def open(self, sequence: int) -> None:
        """Starts an empty sequence in every kind."""
        for kind in self.kinds:
            kind.open(sequence)

    def close(self, sequence: int) -> None:
        """Forgets the sequence in every kind."""
        for kind in self.kinds:
            kind.close(sequence)

    def begin(self, rows: Rows) -> None:
        """Makes room in every kind, or in none."""
        begun: list[State] = []
        try:
            for kind in self.kinds:
                kind.begin(rows)
                begun.append(kind)
        except BaseException:
            for kind in begun:
                kind.abandon()
            raise

    def commit(self, kept: Mapping[int, int]) -> None:
        """Keeps the same rows in every kind."""
        for kind in self.kinds:
            kind.commit(kept)

    def abandon(self) -> None:
        """Ends the pass in every kind where it is still open."""
        for kind in self.kinds:
            kind.abandon()

    def length(self, sequence: int) -> int:
        """Committed rows, the same in every kind."""
        return self.kinds[0].length(sequence)

    def reachable(self, sequence: int, length: int) -> int:
        """The greatest length that every kind can go back to."""
        while True:
            reached = min(kind.reachable(sequence, length) for kind in self.kinds)
            if reached == length:
                return length
            length = reached

    def truncate(self, sequence: int, length: int) -> int:
        """Goes back in every kind to a length that all of them reach."""
        length = self.reachable(sequence, length)
        for kind in self.kinds:
            reached = kind.truncate(sequence, length)
            assert reached == length, "a state went elsewhere than it promised"
        return length

    def fork(self, source: int, into: int) -> None:
        """Forks every kind."""
        for kind in self.kinds:
            kind.fork(source, into)

    def save(self, sequence: int) -> dict[str, Tensor]:
        """All kinds' memory, each under its number."""
        return {
            f"{n}.{key}": value
            for n, kind in enumerate(self.kinds)
            for key, value in kind.save(sequence).items()
        }

    def load(self, sequence: int, saved: Mapping[str, Tensor]) -> None:
        """Loads every kind from what `save` returned."""
        for n, kind in enumerate(self.kinds):
            prefix = f"{n}."
            part = {k.removeprefix(prefix): v for k, v in saved.items() if k.startswith(prefix)}
            kind.load(sequence, part)

    @property
    def bytes(self) -> int:
        """Memory of all kinds."""
        return sum(kind.bytes for kind in self.kinds)
