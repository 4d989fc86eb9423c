"""The whole document: figures of engines and arms, comparisons, floors, and whether texts agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from draftwalk.train.looping import loop_start
from speculation_parts.answer import LLAMA, LLAMA_DFLASH2, PLAIN, Arm
from speculation_parts.columns import Figures, Group, Results, figures
from speculation_parts.comparing import best_arms, fastest, floors, paired, pooled, predicted
from speculation_parts.ours import AGAIN
from speculation_parts.run import Case, Measured

Document = dict[str, object]


def document_of(measured: Measured, arms: Sequence[Arm]) -> Document:
    """From all answers; engines stand under their names, by their best arm."""
    results = Results.of(measured)
    best = best_arms(results, arms)
    loop_free = _loop_free(measured)
    return {
        "pooled": _of_engines(results, best, results.everything, True),
        "suites": _by(results, best, lambda case: case.suite),
        "samplings": _by(results, best, lambda case: case.sampling),
        "categories": _by(results, best, lambda case: case.category, compared=False),
        "loop_free": _of_engines(results, best, loop_free, True) if loop_free.any() else {},
        "arms": {arm.name: _of_arm(results, arm, measured) for arm in arms
                 if arm.name in results.columns},
        "best_fixed": _best_fixed(results, arms),
        "floors": [one.json() for one in floors(results, arms, best)],
        "equal": equality(measured, arms),
        "drift": _drift(results),
        "failed": dict(measured.failed),
    }  # fmt: skip


def equality(measured: Measured, arms: Sequence[Arm]) -> dict[str, object]:
    """Of each arm of ours how many texts are plain text, token by token.

    llama.cpp's drafting arms are compared with its own plain ones, which is no promise of theirs.
    """
    answers = measured.answers
    counts: dict[str, int] = {}
    theirs: dict[str, int] = {}
    plain_of = {arm.target: arm.name for arm in arms if arm.engine == LLAMA}
    for arm in arms:
        if arm.name not in answers:
            continue
        if arm.ours:
            counts[arm.name] = _same(measured, arm.name, PLAIN)
        elif arm.engine == LLAMA_DFLASH2:
            base = plain_of.get(arm.target)
            if base is not None and base in answers:
                theirs[arm.name] = _same(measured, arm.name, base)
    total = len(measured.cases)
    return {
        "all": all(count == total for count in counts.values()),
        "texts": total,
        "arms": counts,
        "llama.cpp": theirs,
    }


def _same(measured: Measured, arm: str, base: str) -> int:
    pairs = zip(measured.answers[arm], measured.answers[base], strict=True)
    return sum(a.tokens == b.tokens for a, b in pairs)


def _loop_free(measured: Measured) -> Group:
    """Cases whose plain text does not go round in circles, where any drafter looks good."""
    return np.array([loop_start(one.tokens) is None for one in measured.answers[PLAIN]], bool)


def _by(
    results: Results, best: Mapping[str, str], of: Callable[[Case], str], compared: bool = True
) -> dict[str, object]:
    return {
        name: _of_engines(results, best, group, compared)
        for name, group in results.groups(of).items()
    }


def _of_engines(
    results: Results, best: Mapping[str, str], group: Group, compared: bool
) -> dict[str, Figures]:
    found = {}
    for engine, arm in best.items():
        found[engine] = {"arm": arm, **figures(results.columns[arm], group)}
        if compared and arm != PLAIN:
            found[engine]["speed_up"] = pooled(results, arm, PLAIN, group).json()
            found[engine]["speed_up_median"] = paired(results, arm, PLAIN, group).json()
    return found


def _of_arm(results: Results, arm: Arm, measured: Measured) -> Figures:
    everything = results.everything
    found = {"engine": arm.engine, **figures(results.columns[arm.name], everything)}
    found["suites_tok_s"] = {
        suite: figures(results.columns[arm.name], group)["tok_s"]
        for suite, group in results.groups(lambda case: case.suite).items()
    }
    if arm.name != PLAIN:
        found["speed_up"] = pooled(results, arm.name, PLAIN, everything).json()
        found["speed_up_median"] = paired(results, arm.name, PLAIN, everything).json()
    if arm.ours and arm.engine != PLAIN:
        promise, reached = predicted(results, arm.name, everything)
        found["predicted_speed_up"] = promise.json()
        found["measured_over_predicted"] = reached.json()
        found["windows"] = _windows(measured, arm.name)
    return found


def _best_fixed(results: Results, arms: Sequence[Arm]) -> dict[str, object]:
    """For each engine with an automatic window the fastest fixed one of all answers together."""
    found: dict[str, object] = {}
    for auto in (arm for arm in arms if arm.automatic and arm.name in results.columns):
        fixed = [arm for arm in arms if arm.engine == auto.engine and not arm.automatic]
        best = fastest(results, fixed, results.everything)
        if best is not None:
            ratio = paired(results, auto.name, best, results.everything)
            found[auto.engine] = {"arm": best, "auto_over_it": ratio.json()}
    return found


def _windows(measured: Measured, arm: str) -> dict[str, int]:
    counts: dict[int, int] = {}
    for one in measured.answers[arm]:
        for window, count in one.windows.items():
            counts[window] = counts.get(window, 0) + count
    return {str(window): counts[window] for window in sorted(counts)}


def _drift(results: Results) -> dict[str, object]:
    """Plain decoding over itself; without 1 in the interval the machine was not steady."""
    if AGAIN not in results.columns:
        return {}
    found = pooled(results, AGAIN, PLAIN, results.everything)
    one_prompt = found.low == found.high
    return {**found.json(), "holds": one_prompt or found.low <= 1 <= found.high}
