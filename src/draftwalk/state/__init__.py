"""What a model remembers of its sequences, and how much of a pass it keeps.

A layer works inside its state during a pass; the loop sees only this interface. A pass is bracketed
by `begin` (makes room for its rows) and exactly one `commit` (keeps the first rows of each
sequence, drops the rest). Whatever a state cannot do it raises; nothing is ignored silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from torch import Tensor

from draftwalk.errors import RollbackError
from draftwalk.rows import Rows


class State(Protocol):
    """The memory of one model, or of one kind of its layers, for all sequences."""

    def open(self, sequence: int) -> None:
        """Starts an empty sequence in a free slot."""

    def close(self, sequence: int) -> None:
        """Forgets a sequence and frees what it holds."""

    def begin(self, rows: Rows) -> None:
        """Makes room for a pass's rows; every span must continue what is committed."""

    def commit(self, kept: Mapping[int, int]) -> None:
        """Ends the pass: keeps the first `kept[sequence]` rows of every sequence in it."""

    def abandon(self) -> None:
        """Ends a pass that failed, were it inside its commit; without a pass, does nothing."""

    def reachable(self, sequence: int, length: int) -> int:
        """The greatest length, at most `length`, from which the sequence can be continued."""

    def truncate(self, sequence: int, length: int) -> int:
        """Goes back to `length`, or the nearest reachable one before it; returns that length."""

    def fork(self, source: int, into: int) -> None:
        """Opens slot `into` with the same memory as `source`; later they go separate ways."""

    def save(self, sequence: int) -> dict[str, Tensor]:
        """A copy of the sequence's memory, to be loaded into any slot later."""

    def load(self, sequence: int, saved: Mapping[str, Tensor]) -> None:
        """Opens the sequence with what `save` returned."""

    def length(self, sequence: int) -> int:
        """Committed rows of the sequence."""

    @property
    def bytes(self) -> int:
        """Memory allocated for all sequences."""


@contextmanager
def pass_over(state: State, rows: Rows) -> Iterator[dict[int, int]]:
    """Begins a pass and commits what the caller writes to the yielded `kept`, by default nothing.

    A pass that fails keeps no row, so the sequences stand where they stood before it; one that is
    broken off inside its commit leaves them where they can be closed or gone back from.
    """
    sizes = {span.sequence: span.size for span in rows.spans}
    kept = dict.fromkeys(sizes, 0)
    state.begin(rows)
    try:
        yield kept
        check_kept(kept, sizes)
        state.commit(kept)
    except BaseException:  # Ctrl-C above all, which may come anywhere
        state.abandon()
        raise


def check_kept(kept: Mapping[int, int], sizes: Mapping[int, int]) -> None:
    """Whether a commit asks for no more than the pass had, before anything is changed.

    Raises:
        RollbackError: it keeps rows that were never computed.
    """
    for sequence, rows in kept.items():
        if not 0 <= rows <= sizes[sequence]:
            raise RollbackError(f"kept {rows} of {sizes[sequence]} rows of slot {sequence}")
