"""An answer with what it took: the names of its timings are llama.cpp's."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass

from draftwalk.errors import UserError
from draftwalk.sequence import Sequence
from draftwalk.step import FinishReason, Step, StepTimes


@dataclass(frozen=True, slots=True)
class Timings:
    """Counts and times of one answer; in a batch, a step's time counts for everyone in it.

    Attributes:
        prompt_n: prompt tokens read, without those a state still held.
        prompt_ms: time of the steps that read them; the last one also chose the first token.
        predicted_n: tokens generated.
        predicted_ms: time of the steps after.
        draft_n: drafted tokens that were verified.
        draft_n_accepted: of these, the ones that were kept.
        verify_n: steps in which a draft was verified.
        draft_steps_n: steps that drafted, whatever of it was verified.
        off_n: steps after the prompt that did not.
    """

    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    draft_n: int
    draft_n_accepted: int
    verify_n: int
    draft_steps_n: int = 0
    off_n: int = 0

    @staticmethod
    def of(steps: Many[Step]) -> Timings:
        """What the steps of one answer took."""
        reading = [step for step in steps if step.prompt_rows]
        decoding = [step for step in steps if not step.prompt_rows]
        return Timings(
            prompt_n=sum(step.prompt_rows for step in reading),
            prompt_ms=1e3 * sum(step.times.total for step in reading),
            predicted_n=sum(len(step.tokens) for step in steps),
            predicted_ms=1e3 * sum(step.times.total for step in decoding),
            draft_n=sum(len(step.draft) for step in steps),
            draft_n_accepted=sum(step.accepted for step in steps),
            verify_n=sum(bool(step.draft) for step in steps),
            draft_steps_n=sum(bool(step.asked) for step in steps),
            off_n=sum(not step.asked for step in decoding),
        )

    @property
    def predicted_per_second(self) -> float:
        """Tokens per second after the first, which belongs to the prompt's time."""
        return 1e3 * (self.predicted_n - 1) / self.predicted_ms if self.predicted_ms else 0.0

    @property
    def acceptance_length(self) -> float:
        """Mean of tokens kept per verified draft, the bonus token included."""
        return 1 + self.draft_n_accepted / self.verify_n if self.verify_n else 1.0


@dataclass(frozen=True, slots=True)
class Result:
    """One answer.

    Attributes:
        text: the text, without a stop string.
        tokens: all generated ids, a stop token included.
        finish_reason: why it ended.
        prompt_tokens: length of the prompt; 0 if it was never taken on.
        seed: what makes the text again; `None` where nothing was drawn.
        timings: counts and times.
        steps: what every step did.
        error: what went wrong, if `finish_reason` says so.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    seed: int | None
    timings: Timings
    steps: tuple[Step, ...]
    error: UserError | None = None

    @staticmethod
    def of(sequence: Sequence) -> Result:
        """What became of a sequence that has ended."""
        assert sequence.finish_reason is not None, "the text has not ended"
        sampling = sequence.request.sampling
        return Result(
            text="".join(step.text for step in sequence.steps),
            tokens=tuple(sequence.generated),
            finish_reason=sequence.finish_reason,
            prompt_tokens=len(sequence.request.prompt),
            seed=None if sampling.greedy else sampling.seed,
            timings=Timings.of(sequence.steps),
            steps=tuple(sequence.steps),
            error=sequence.error,
        )

    @staticmethod
    def refused(error: UserError) -> Result:
        """The answer to a prompt that could not be taken on."""
        return Result("", (), "error", 0, None, Timings.of(()), (), error)


def pass_times(results: Many[Result]) -> list[StepTimes]:
    """Times of the steps behind several answers; one that served many of them counts once."""
    shared = {id(step.times): step.times for result in results for step in result.steps}
    return list(shared.values())
