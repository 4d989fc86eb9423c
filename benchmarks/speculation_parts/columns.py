"""Answers as columns of numbers, and the figures of any group of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speculation_parts.answer import Answer
from speculation_parts.run import Case, Measured
from speculation_parts.statistics import Draws, Floats, divided, draw_again

Group = NDArray[np.bool_]
Columns = Mapping[str, Floats]
Figures = dict[str, object]


@dataclass(frozen=True, slots=True)
class Results:
    """What was measured.

    Attributes:
        cases: what was asked.
        columns: by arm, then by name, a number for each case.
    """

    cases: Sequence[Case]
    columns: Mapping[str, Columns]

    @staticmethod
    def of(measured: Measured) -> Results:
        """From the answers."""
        return Results(
            measured.cases,
            {arm: columns_of(found, measured.cases) for arm, found in measured.answers.items()},
        )

    @property
    def everything(self) -> Group:
        """All cases."""
        return np.ones(len(self.cases), bool)

    def groups(self, of: Callable[[Case], str]) -> dict[str, Group]:
        """Cases by what they have in common: their suite, say."""
        values = [of(case) for case in self.cases]
        return {one: np.array([value == one for value in values]) for one in dict.fromkeys(values)}

    def by_prompt(self, arm: str, group: Group, *names: str) -> list[Floats]:
        """Columns of a group, summed over the samplings of each prompt."""
        numbers = np.array([case.prompt for case in self.cases])[group]
        _, places = np.unique(numbers, return_inverse=True)
        columns = self.columns[arm]
        return [np.bincount(places, columns[name][group]).astype(np.float64) for name in names]

    def draws(self, group: Group) -> Draws:
        """Its prompts drawn again within their suites; the same for all arms."""
        taken = [case for case, is_in in zip(self.cases, group, strict=True) if is_in]
        suites = {case.prompt: case.suite for case in taken}
        return draw_again([suites[number] for number in sorted(suites)])


def columns_of(answers: Sequence[Answer], cases: Sequence[Case]) -> Columns:
    """The numbers of one arm.

    `gained` are tokens after the first, which belongs to the prompt's time; `loop_s` is what the
    steps behind them account for.
    """
    rows = [
        (
            max(0, len(one.tokens) - 1),
            one.decode_s,
            case.prompt_tokens,
            one.prompt_s,
            one.steps,
            one.verified,
            one.drafted,
            one.accepted,
            sum(one.parts_s.values()),
        )
        for one, case in zip(answers, cases, strict=True)
    ]
    names = ("gained", "decode_s", "prompt_tokens", "prompt_s", "steps", "verified", "drafted",
             "accepted", "loop_s")  # fmt: skip
    table = np.array(rows, np.float64).reshape(len(rows), len(names))
    return {name: table[:, n] for n, name in enumerate(names)}


def figures(columns: Columns, group: Group) -> Figures:
    """Of a group: rates and acceptance, pooled; beside it the acceptance of single answers."""
    mine = {name: values[group] for name, values in columns.items()}
    total = {name: float(values.sum()) for name, values in mine.items()}
    drafting = mine["verified"] > 0
    found: Figures = {
        "tok_s": _ratio(total["gained"], total["decode_s"], 2),
        "acceptance_length": 1.0,
        "prompt_tok_s": _ratio(total["prompt_tokens"], total["prompt_s"], 1),
        "tokens_per_step": _ratio(total["gained"], total["steps"], 3),
        "cycle_ms": _ratio(1e3 * total["decode_s"], total["steps"], 3),
        "answers": int(group.sum()),
        "tokens": int(total["gained"]),
    }
    if drafting.any():
        lengths = 1 + divided(mine["accepted"], mine["verified"])[drafting]
        found["acceptance_length"] = round(1 + total["accepted"] / total["verified"], 4)
        found["acceptance_length_per_request"] = {
            "mean": round(float(lengths.mean()), 4),
            "sd": round(float(lengths.std(ddof=min(1, len(lengths) - 1))), 4),
        }
        found["acceptance_rate"] = _ratio(total["accepted"], total["drafted"], 4)
        found["drafted_per_step"] = _ratio(total["drafted"], total["steps"], 3)
    return found


def _ratio(a: float, b: float, digits: int) -> float:
    return round(a / b, digits) if b else 0.0
