"""Rates, ratios and their intervals; the unit is the prompt, drawn again within its suite."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Draws = NDArray[np.intp]
_DRAWS = 2000
_INTERVAL = (0.025, 0.975)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with the interval of 95% that drawing prompts again gives it."""

    value: float
    low: float
    high: float

    def json(self) -> dict[str, object]:
        """Rounded; null where there is no number."""
        value, low, high = (
            round(one, 4) if math.isfinite(one) else None
            for one in (self.value, self.low, self.high)
        )
        return {"value": value, "interval": [low, high]}


def draw_again(strata: Sequence[str], draws: int = _DRAWS, seed: int = 1) -> Draws:
    """Numbers of prompts [draws, prompts]; as many of each stratum as there are."""
    rng = np.random.default_rng(seed)
    names = np.array(strata)
    parts = [np.flatnonzero(names == name) for name in dict.fromkeys(strata)]
    return np.concatenate(
        [part[rng.integers(0, len(part), (draws, len(part)))] for part in parts], axis=1
    )


def of_sums(formula: Callable[..., Floats], columns: Sequence[Floats], draws: Draws) -> Estimate:
    """A formula of the columns' sums over prompts: what a workload as a whole takes.

    Args:
        formula: takes a sum of each column; works on arrays of them.
        columns: a number for each prompt.
        draws: prompts drawn again.
    """
    value = formula(*(np.array(column.sum()) for column in columns))
    drawn = formula(*(column[draws].sum(axis=1) for column in columns))
    return Estimate(float(value), *_interval(drawn))


def of_medians(ratios: Floats, draws: Draws) -> Estimate:
    """The median of paired ratios; prompts without one (nan) do not count."""
    value = np.nanmedian(ratios)
    drawn = np.nanmedian(ratios[draws], axis=1)
    return Estimate(float(value), *_interval(drawn))


def speed_up(tokens: Floats, seconds: Floats, base_tokens: Floats, base: Floats) -> Floats:
    """Rate over rate: of equal texts the ratio of times, never a mean of rates."""
    return divided(divided(tokens, seconds), divided(base_tokens, base))


def divided(a: Floats, b: Floats) -> Floats:
    """a / b; nan where b is 0."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    out = np.full(np.broadcast(a, b).shape, np.nan)
    np.divide(a, b, out=out, where=b != 0)
    return out


def _interval(values: Floats) -> tuple[float, float]:
    low, high = np.nanquantile(values, _INTERVAL)
    return float(low), float(high)
