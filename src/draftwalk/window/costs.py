"""What steps cost: the target's pass and the draft by their rows, and what stands around.

All costs are relative to how fast the machine is at the moment, which is followed apart: work of
others slows everything down alike and should change no window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from draftwalk.window.curve import Curve

# Of what a step tells, against what is known. Speed moves first: most of what changes is common.
_SPEED_RATE, _REST_RATE, _PLACE_RATE = 0.2, 0.05, 0.02
_OUTLIER = 3.0  # times what was expected, or a third of it
_PERSISTENT = 8  # outliers in a row are no outliers
_ALONE = 0.15  # a row more, before anything was measured, of a pass of one


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found out about the target before the first text.

    Attributes:
        passes: seconds of a pass of so many rows without context; one row among them.
        place: seconds more for each place that a row sees.
    """

    passes: Mapping[int, float]
    place: float = 0.0


@dataclass(frozen=True, slots=True)
class Spent:
    """What one step was and took.

    Attributes:
        slots: of the texts in it.
        rows: of the target's pass.
        places: that they saw, all together.
        reading: whether some rows were of prompts.
        draft: seconds of drafting, and of what the drafter had to learn for it.
        verify: seconds of the target's pass.
        rest: seconds of what any step does.
    """

    slots: tuple[int, ...]
    rows: int
    places: int
    reading: bool
    draft: float
    verify: float
    rest: float


@dataclass(slots=True)
class Costs:
    """All that is known of costs.

    Attributes:
        passes: seconds by rows.
        drafts: seconds by rows of all blocks.
        place: seconds for each place that a row sees.
        rest: seconds of what any step does.
    """

    passes: Curve = field(default_factory=Curve)
    drafts: Curve = field(default_factory=Curve)
    place: float = 0.0
    rest: float = 0.0
    _slowness: float = 1.0
    _outliers: int = 0
    _passes_seen: set[int] = field(default_factory=set)
    _drafts_seen: set[int] = field(default_factory=lambda: {0})

    @staticmethod
    def of(measured: Measured) -> Costs:
        """Starts with what was measured; no pass is believed dearer than a larger one."""
        costs = Costs(place=measured.place)
        least = inf
        for rows, seconds in sorted(measured.passes.items(), reverse=True):
            least = min(least, seconds)
            costs.passes.set(rows, least)
        costs._passes_seen.update(measured.passes)
        return costs

    @property
    def slowness(self) -> float:
        """Times as long as all these costs the machine takes at the moment."""
        return self._slowness

    def of_passes(self, rows: Sequence[int]) -> list[float]:
        """Of passes of the target, without what their rows see."""
        if not self.passes:
            return [1.0 + _ALONE * (size - 1) for size in rows]
        return self.passes.through(rows)

    def of_drafts(self, rows: Sequence[int]) -> list[float]:
        """Of drafts; until one was seen, as much as a row of the target."""
        return self.drafts.through(rows) if self.drafts else [self.of_pass(1, 0)] * len(rows)

    def of_pass(self, rows: int, places: int) -> float:
        """Of one pass of the target."""
        if not self.passes:
            return self.of_passes((rows,))[0]
        return self.passes.at(rows) + self.place * places

    def of_draft(self, rows: int) -> float:
        """Of one draft."""
        return self.drafts.at(rows) if self.drafts else self.of_pass(1, 0)

    def learn(self, spent: Spent, drafted: int, usual: bool = True) -> None:
        """Takes in a step; those that read prompts are another matter.

        Args:
            spent: what it took.
            drafted: rows of the blocks that were drafted.
            usual: whether its draft did nothing that most drafts do not.
        """
        if spent.reading:
            return
        # A back end may have prepared itself for a new size.
        if spent.rows not in self._passes_seen or drafted not in self._drafts_seen:
            self._passes_seen.add(spent.rows)
            self._drafts_seen.add(drafted)
            return
        expected = self.of_pass(spent.rows, spent.places)
        ratio = spent.verify / (expected * self._slowness)
        if not 1.0 / _OUTLIER < ratio < _OUTLIER:
            self._outliers += 1
            if self._outliers >= _PERSISTENT:
                self._slowness *= ratio
                self._outliers = 0
            return
        self._outliers = 0
        self._slowness *= ratio**_SPEED_RATE
        self._learn_pass(spent, expected)
        self.rest += _REST_RATE * (spent.rest / self._slowness - self.rest)
        if drafted and usual:
            self._learn_draft(drafted, spent.draft / self._slowness)

    def _learn_pass(self, spent: Spent, expected: float) -> None:
        """What a pass took beyond what was expected is shared by what it is made of."""
        seconds = spent.verify / self._slowness
        if not self.passes:
            self.passes.set(spent.rows, seconds)
            return
        ratio, seen = seconds / expected, self.place * spent.places
        self.passes.move(spent.rows, (expected - seen) * ratio)
        if seen:
            self.place *= ratio ** (_PLACE_RATE * seen / expected)

    def _learn_draft(self, rows: int, seconds: float) -> None:
        if self.drafts:
            known = self.drafts.at(rows)
            seconds = min(max(seconds, known / _OUTLIER), known * _OUTLIER)
        self.drafts.move(rows, seconds)
