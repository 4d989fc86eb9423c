"""Asking every arm every question, arms taking turns within each, so that drift cancels."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cpu_parts.measure import rotated
from draftwalk.errors import UserError
from prompts import Prompt
from speculation_parts.answer import PLAIN, Answer, Arm, Question

_SETTLE = 0.05  # seconds between arms; threads that spin for work have gone to sleep by then
TEMPERATURES = {"greedy": 0.0, "seeded": 0.7}
SEED = 20


@dataclass(frozen=True, slots=True)
class Case:
    """What one question was of.

    Attributes:
        prompt: its number; answers to one prompt under several samplings belong together.
        suite: of the prompt.
        category: of the prompt.
        sampling: one of `TEMPERATURES`.
        prompt_tokens: length of the prompt.
    """

    prompt: int
    suite: str
    category: str
    sampling: str
    prompt_tokens: int


@dataclass(slots=True)
class Measured:
    """All answers.

    Attributes:
        cases: what was asked, in order.
        answers: by arm, one for each case.
        failed: arms that failed, and why; they have no answers.
    """

    cases: list[Case] = field(default_factory=list)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked.

    Attributes:
        prompts: rendered, with where they come from.
        samplings: names of `TEMPERATURES`.
        tokens: new ones, at most.
    """

    prompts: Sequence[tuple[Prompt, tuple[int, ...]]]
    samplings: Sequence[str]
    tokens: int

    def questions(self) -> list[tuple[Case, Question]]:
        """All of them; each prompt has a seed of its own."""
        return [
            (
                Case(number, prompt.suite, prompt.category, sampling, len(ids)),
                Question(ids, TEMPERATURES[sampling], SEED + number, self.tokens),
            )
            for number, (prompt, ids) in enumerate(self.prompts)
            for sampling in self.samplings
        ]


def run(
    arms: Sequence[Arm], plan: Plan, tick: Callable[[str], None], records: Path | None = None
) -> Measured:
    """Measures; what is there when the user interrupts it is kept.

    Args:
        arms: who answers; one that fails is left out from then on.
        plan: what is asked.
        tick: told before each answer.
        records: file that takes every answer as a line of JSON.
    """
    measured = Measured(answers={arm.name: [] for arm in arms})
    by_name = {arm.name: arm for arm in arms}
    with _writing(records) as write:
        try:
            _warm_up(by_name, plan, measured, tick)
            for turn, (case, question) in enumerate(plan.questions()):
                found = _ask_all(by_name, question, turn, measured, tick)
                for name, answer in found.items():
                    measured.answers[name].append(answer)
                    write(name, case, answer)
                measured.cases.append(case)
        except KeyboardInterrupt:
            tick("interrupted: the report is about what is there")
    return measured


def _warm_up(
    arms: dict[str, Arm], plan: Plan, measured: Measured, tick: Callable[[str], None]
) -> None:
    """Everybody prepares what it does once: recordings of passes, buffers, costs of windows."""
    for sampling in plan.samplings:
        ids = plan.prompts[0][1]
        question = Question(ids, TEMPERATURES[sampling], SEED, min(plan.tokens, 48))
        _ask_all(arms, question, 0, measured, tick)


def _ask_all(
    arms: dict[str, Arm],
    question: Question,
    turn: int,
    measured: Measured,
    tick: Callable[[str], None],
) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    for name in rotated(list(measured.answers), turn):
        tick(name)
        gc.collect()
        time.sleep(_SETTLE)
        try:
            found[name] = arms[name].ask(question)
        except UserError as error:
            if name == PLAIN:
                raise  # there is nothing to compare with
            measured.failed[name] = str(error)
            del measured.answers[name]
            tick(f"{name} failed: {error}")
    return found


@contextmanager
def _writing(path: Path | None) -> Iterator[Callable[[str, Case, Answer], None]]:
    """Takes answers down as they come, if there is a file for them."""
    if path is None:
        yield lambda _name, _case, _answer: None
        return
    with path.open("w", encoding="utf-8") as file:

        def write(name: str, case: Case, answer: Answer) -> None:
            file.write(json.dumps({"arm": name, **asdict(case), **asdict(answer)}) + "\n")
            file.flush()

        yield write
