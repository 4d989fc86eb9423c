"""What a drafter is worth, as numbers that become JSON.

Counts stand beside what is computed from them, so that measurements can be added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from draftwalk.window.fit import Outcome


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How many tokens a step is good for.

    Attributes:
        answers: in which there was such a step.
        steps: in which a draft was verified.
        drafted: tokens verified.
        accepted: of these, the ones that stood.
        length: mean of tokens kept per step, the bonus token included.
        length_per_answer: mean of the answers' own means.
    """

    answers: int
    steps: int
    drafted: int
    accepted: int
    length: float
    length_per_answer: float


@dataclass(frozen=True, slots=True)
class Offset:
    """One place of the block, of all steps of the walk at the full window.

    Attributes:
        offset: 1 for the first drafted token.
        steps: all of them.
        at_risk: steps that verified this token, all before it standing.
        right: of these, those whose greatest logit was of the right token.
        covered: those whose candidates had the right token.
        selected: those that had it, and drafted it.
        accepted: those whose token stood.
        survival: accepted / steps; their sum over a block and one is the acceptance length.
        recall_1: right / at_risk.
        recall_k: covered / at_risk.
        selector_accuracy: selected / covered.
    """

    offset: int
    steps: int
    at_risk: int
    right: int
    covered: int
    selected: int
    accepted: int
    survival: float | None = field(init=False)
    recall_1: float | None = field(init=False)
    recall_k: float | None = field(init=False)
    selector_accuracy: float | None = field(init=False)

    def __post_init__(self) -> None:
        for name, part, whole in (
            ("survival", self.accepted, self.steps),
            ("recall_1", self.right, self.at_risk),
            ("recall_k", self.covered, self.at_risk),
            ("selector_accuracy", self.selected, self.covered),
        ):
            object.__setattr__(self, name, part / whole if whole else None)


@dataclass(frozen=True, slots=True)
class Errors:
    """What ended drafts, of all steps at the full window.

    Attributes:
        none: every token stood, as far as the answer goes.
        walk: the greatest logit was of the right token, yet another was drafted.
        unary: the right token was a candidate, but neither the greatest logit's nor drafted.
        coverage: the right token was no candidate.
        vocabulary: of these, those where it is not in the drafter's vocabulary.
    """

    none: int
    walk: int
    unary: int
    coverage: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class Worth:
    """What a drafter is worth on some answers.

    Attributes:
        answers: how many.
        tokens: of the target's own in them.
        windows: by most tokens verified in a step; each from a walk of its own.
        suites: the same by the prompts' file.
        positions: at the full window, by the anchor's place in the text.
        offsets: at the full window.
        errors: at the full window.
        unary_length: acceptance length where each row's greatest logit is drafted; these three at
            the places where the walk at the full window stood.
        oracle_length: where the right token is drafted whenever it is a candidate.
    """

    answers: int
    tokens: int
    windows: Mapping[int, Acceptance]
    suites: Mapping[str, Mapping[int, Acceptance]]
    positions: Mapping[str, Acceptance]
    offsets: tuple[Offset, ...]
    errors: Errors
    unary_length: float
    oracle_length: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """A drafter on answers it has not seen.

    Attributes:
        block: rows of its blocks.
        candidates: of each row, K.
        temperature: of the answers.
        answers: how many.
        tokens: of the target's own in them.
        steps: of the walk at the full window.
        loop_free: what it is worth on answers without a loop, if there are any.
        looping: on the others; inside of loops every drafter is good.
        outcomes: of single tokens, to calibrate confidence with.
    """

    block: int
    candidates: int
    temperature: float
    answers: int
    tokens: int
    steps: int
    loop_free: Worth | None
    looping: Worth | None
    outcomes: tuple[Outcome, ...] = field(repr=False)

    def as_json(self) -> dict[str, object]:
        """Everything but single outcomes."""
        values = asdict(replace(self, outcomes=()))
        del values["outcomes"]
        return values
