"""Warm-up, a stable stretch that can always be extended, and a decay that makes a drafter of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """The learning rate's factor by step.

    Attributes:
        warm_up: steps from 0 to 1.
        decay_from: the step where the decay begins; `None` while it is not known.
        decay: steps of the decay.
        least: the factor at its end.
    """

    warm_up: int = 50
    decay_from: int | None = None
    decay: int = 0
    least: float = 0.05

    def factor(self, step: int) -> float:
        """For the update number `step`, counted from 0."""
        rising = min(1.0, (step + 1) / max(1, self.warm_up))
        if self.decay_from is None or step < self.decay_from:
            return rising
        done = min(1.0, (step - self.decay_from + 1) / max(1, self.decay))
        return rising * (1 - (1 - self.least) * done)
