"""Arms against each other: speed-ups, what cycle and acceptance predict, and the floors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from speculation_parts.answer import (
    DFLASH2,
    ENGINES,
    LLAMA,
    LLAMA_DFLASH2,
    PLAIN,
    Arm,
)
from speculation_parts.columns import Group, Results
from speculation_parts.statistics import (
    Estimate,
    Floats,
    divided,
    of_medians,
    of_sums,
    speed_up,
)


def rate(results: Results, arm: str, group: Group) -> float:
    """Tokens per second of a group."""
    columns = results.columns[arm]
    return float(divided(columns["gained"][group].sum(), columns["decode_s"][group].sum()))


def fastest(results: Results, arms: Sequence[Arm], group: Group) -> str | None:
    """The arm with the highest rate, if there is any."""
    names = [arm.name for arm in arms if arm.name in results.columns]
    return max(names, key=lambda name: rate(results, name, group), default=None)


def best_arms(results: Results, arms: Sequence[Arm]) -> dict[str, str]:
    """For each engine the arm that stands for it: the fastest of all answers together."""
    found = {PLAIN: PLAIN}
    for engine in ENGINES[1:]:
        best = fastest(results, [a for a in arms if a.engine == engine], results.everything)
        if best is not None:
            found[engine] = best
    return found


def pooled(results: Results, arm: str, base: str, group: Group) -> Estimate:
    """An arm's rate over another's, of all text together."""
    columns = results.by_prompt(arm, group, "gained", "decode_s")
    columns += results.by_prompt(base, group, "gained", "decode_s")
    return of_sums(speed_up, columns, results.draws(group))


def paired(results: Results, arm: str, base: str, group: Group) -> Estimate:
    """The median over prompts of an arm's rate over another's."""
    columns = results.by_prompt(arm, group, "gained", "decode_s")
    columns += results.by_prompt(base, group, "gained", "decode_s")
    return of_medians(speed_up(*columns), results.draws(group))


def predicted(results: Results, arm: str, group: Group) -> tuple[Estimate, Estimate]:
    """What acceptance and cycle promise over plain decoding, and how much of it is reached.

    Tokens of a step times the time of a plain step over that of this arm's, both as the loop
    accounts for them; what is measured is by the clock outside, with all that is between steps.
    """
    columns = results.by_prompt(arm, group, "accepted", "steps", "loop_s", "gained", "decode_s")
    columns += results.by_prompt(PLAIN, group, "steps", "loop_s", "gained", "decode_s")

    def promise(accepted: Floats, steps: Floats, loop: Floats, *rest: Floats) -> Floats:
        plain_steps, plain_loop = rest[2:4]
        cycle = divided(divided(plain_loop, plain_steps), divided(loop, steps))
        return (1 + divided(accepted, steps)) * cycle

    def reached(*sums: Floats) -> Floats:
        gained, decode, _, _, plain_gained, plain_decode = sums[3:]
        return divided(speed_up(gained, decode, plain_gained, plain_decode), promise(*sums))

    draws = results.draws(group)
    return of_sums(promise, columns, draws), of_sums(reached, columns, draws)


@dataclass(frozen=True, slots=True)
class Floor:
    """A ratio that is to be reached.

    Attributes:
        name: what it is of.
        floor: how much is wanted.
        found: what it is.
    """

    name: str
    floor: float
    found: Estimate

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.found.value >= self.floor

    def json(self) -> dict[str, object]:
        """For the document."""
        return {"name": self.name, "floor": self.floor, **self.found.json(), "met": self.met}


def floors(results: Results, arms: Sequence[Arm], best: Mapping[str, str]) -> list[Floor]:
    """Those that the engines of this run allow to be looked at."""
    found: list[Floor] = []
    if (ours := best.get(DFLASH2)) is None:
        return found
    everything = results.everything
    found.append(Floor(f"{ours} over plain", 1.5, pooled(results, ours, PLAIN, everything)))
    reached = predicted(results, ours, everything)[1]
    found.append(Floor(f"{ours} over what acceptance and cycle predict", 0.95, reached))
    rivals = [arm for arm in arms if arm.engine in (LLAMA, LLAMA_DFLASH2)]
    rival = fastest(results, rivals, everything)
    if rival is not None:
        found.append(Floor(f"{ours} over {rival}", 2.0, pooled(results, ours, rival, everything)))
    return found + _of_auto(results, arms)


def _of_auto(results: Results, arms: Sequence[Arm]) -> list[Floor]:
    """The automatic window on every suite, against that suite's best fixed one and plain."""
    mine = [arm for arm in arms if arm.engine == DFLASH2 and arm.name in results.columns]
    fixed = [arm for arm in mine if not arm.automatic]
    found = []
    for auto in (arm.name for arm in mine if arm.automatic):
        for suite, group in results.groups(lambda case: case.suite).items():
            best = fastest(results, fixed, group)
            bases = {PLAIN: 0.97} if best is None else {best: 0.98, PLAIN: 0.97}
            for base, floor in bases.items():
                ratio = paired(results, auto, base, group)
                found.append(Floor(f"{suite}: {auto} over {base}", floor, ratio))
    return found
