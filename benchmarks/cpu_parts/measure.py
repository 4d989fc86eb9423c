"""Timing several engines on one model, their turns interleaved so that all see the same machine."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cpu_parts.arm import Arm

_SETTLE = 0.05  # seconds between turns; threads that spin for work have gone to sleep by then
Samples = dict[str, dict[str, list[float]]]  # seconds by engine and measure


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and how often.

    Attributes:
        widths: rows of the passes.
        rounds: turns of every engine.
        turn_s: seconds that passes of one width are repeated for in a turn.
        tokens: decoded in a turn.
        context: tokens read before passes and decoding.
        prompt: tokens of a prefill; 0 leaves it out.
        prefills: turns of prefill.
        loads: fresh processes that load the model.
    """

    widths: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    rounds: int = 6
    turn_s: float = 0.25
    tokens: int = 64
    context: int = 256
    prompt: int = 512
    prefills: int = 4
    loads: int = 3

    @property
    def needed(self) -> int:
        """Tokens of text that are used."""
        return max(self.context + max(self.widths), self.prompt)

    def turns(self, engines: int) -> int:
        """Calls of `tick`."""
        prefills = self.prefills if self.prompt else 0
        return engines * (1 + self.rounds + prefills)


QUICK = Plan(widths=(1, 8), rounds=3, turn_s=0.15, tokens=16, prompt=0, prefills=0, loads=1)


def pass_of(rows: int) -> str:
    """Name of a measure."""
    return f"pass_{rows}"


DECODE, PREFILL = "decode", "prefill"


def measure(
    arms: Mapping[str, Arm], text: Sequence[int], plan: Plan, tick: Callable[[str], None]
) -> Samples:
    """Takes turns; seconds of a pass, of a token, of a prefill.

    Args:
        arms: engines with the model loaded.
        text: token ids, `plan.needed` or more.
        plan: what to measure.
        tick: told before each turn whose it is.
    """
    assert len(text) >= plan.needed, "the text is too short"
    counts: dict[str, dict[int, int]] = {}
    samples: Samples = {name: {} for name in arms}
    for name, arm in arms.items():
        tick(f"{name} warms up")
        arm.read(text[: plan.context])
        counts[name] = {rows: _warm(arm, _rows(text, plan, rows), plan) for rows in plan.widths}
        arm.decode(text[plan.context], 2)
    for turn in range(plan.rounds):
        for name in rotated(list(arms), turn):
            tick(name)
            for rows in plan.widths:
                time.sleep(_SETTLE)
                found = arms[name].passes(_rows(text, plan, rows), counts[name][rows])
                samples[name].setdefault(pass_of(rows), []).extend(found)
            time.sleep(_SETTLE)
            taken = arms[name].decode(text[plan.context], plan.tokens)
            samples[name].setdefault(DECODE, []).append(taken / plan.tokens)
    for turn in range(plan.prefills if plan.prompt else 0):
        for name in rotated(list(arms), turn):
            tick(name)
            time.sleep(_SETTLE)
            taken = arms[name].prefill(text[: plan.prompt])
            samples[name].setdefault(PREFILL, []).append(taken)
    return samples


def _rows(text: Sequence[int], plan: Plan, rows: int) -> Sequence[int]:
    return text[plan.context : plan.context + rows]


def _warm(arm: Arm, rows: Sequence[int], plan: Plan) -> int:
    """Runs passes that do not count; how many of them fill a turn."""
    taken = min(arm.passes(rows, 2))
    return min(max(2, math.ceil(plan.turn_s / taken)), 20)


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """Everybody goes first at times."""
    first = turn % len(names)
    return [*names[first:], *names[:first]]


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def spread(values: Sequence[float]) -> float:
    """Interquartile range over the median; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle
