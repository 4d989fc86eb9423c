"""What one step of the loop did for one text, and where its time went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "error"]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a step, all sequences together.

    Attributes:
        draft: drafting.
        verify: the target's pass.
        choose: choosing tokens.
        commit: keeping rows in the target's state.
        observe: the drafter's learning of the kept rows.
    """

    draft: float
    verify: float
    choose: float
    commit: float
    observe: float

    @property
    def total(self) -> float:
        """The whole step."""
        return self.draft + self.verify + self.choose + self.commit + self.observe


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did for one sequence, whose `steps` it is the newest of.

    Attributes:
        prompt_rows: rows of its prompt that were read.
        draft: the drafted tokens that were verified: the window's part of what was drafted.
        accepted: how many of them the text kept.
        tokens: what the text gained: the kept drafts and, unless cut before it, the next token.
        text: what became certain of the text.
        finish_reason: set by the step that ended the text.
        times: of the whole step; sequences of one pass share the object.
        asked: how many tokens the drafter was asked for; 0 where it was not.
        confidence: the drafter's, in each verified token.
    """

    prompt_rows: int
    draft: tuple[int, ...]
    accepted: int
    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason | None
    times: StepTimes
    asked: int = 0
    confidence: tuple[float, ...] = ()
