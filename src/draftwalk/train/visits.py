"""What became of the drafts of a walk, as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from draftwalk.train.shards import AnswerFacts

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Visits:
    """N drafted blocks of B rows.

    Attributes:
        answers: [N] number of the answer.
        places: [N] the anchor's place in it.
        walks: [N, W] which windows' walks stood there.
        truth: [N, B - 1] the answer's own tokens, -1 after its end.
        drafted: [N, B - 1] what would be verified at the full window, -1 where there is nothing.
        confidence: [N, B - 1] the drafter's, in these.
        ranks: [N, B - 1] place of the right token among the row's candidates, K where it is none.
    """

    answers: Numbers
    places: Numbers
    walks: Flags
    truth: Numbers
    drafted: Numbers
    confidence: NDArray[np.float64]
    ranks: Numbers

    def __len__(self) -> int:
        return len(self.answers)

    @staticmethod
    def join(parts: Sequence[Visits]) -> Visits:
        """All of them in one."""
        names = [field.name for field in fields(Visits)]
        return Visits(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def where(self, chosen: Flags) -> Visits:
        """Some of them."""
        return Visits(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @cached_property
    def judged(self) -> Flags:
        """[N, B - 1] drafted, and the right token is known."""
        return (self.drafted >= 0) & (self.truth >= 0)

    @cached_property
    def verified(self) -> Numbers:
        """[N] tokens put to the target."""
        counts: Numbers = (self.drafted >= 0).sum(1)
        return counts

    @cached_property
    def accepted(self) -> Numbers:
        """[N] tokens that stand."""
        return leading(self.judged & (self.drafted == self.truth))


@dataclass(frozen=True)
class Walk:
    """A drafter's way through answers.

    Attributes:
        facts: of the answers, in the order of their numbers.
        tokens: how many of each answer's tokens are the target's.
        windows: at which walks were made, ascending; the last is the full one.
        candidates: of each row, K.
        visits: the blocks that were drafted.
    """

    facts: tuple[AnswerFacts, ...]
    tokens: Numbers
    windows: tuple[int, ...]
    candidates: int
    visits: Visits

    def at(self, window: int) -> Visits:
        """The steps of the walk at one window."""
        return self.visits.where(self.visits.walks[:, self.windows.index(window)])


def leading(flags: Flags) -> Numbers:
    """[N] how many of each row [N, B - 1] hold before one does not."""
    counts: Numbers = np.logical_and.accumulate(flags, axis=1).sum(1)
    return counts
