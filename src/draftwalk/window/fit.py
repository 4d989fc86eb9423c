"""The calibration a drafter carries, from what became of its drafts on texts of its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftwalk.window.calibration import USUAL_BIAS, USUAL_HEAT, USUAL_SLOPE, Calibration, score

_ROUNDS = 25  # of Newton's method, which mostly needs five
_NEAR = 1e-8
# How firmly it is held to the usual one, and a position to all of them together: as inverse
# variances. Later positions have few outcomes of their own.
_TO_USUAL = np.array([1.0, 10.0, 10.0])
_TO_POOLED = np.array([20.0, 40.0])

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one drafted token that was at risk: verified, and all before it stood.

    Attributes:
        position: in the draft, from 0.
        confidence: the drafter's in it.
        temperature: of the text; 0 is greedy.
        accepted: whether it stood.
    """

    position: int
    confidence: float
    temperature: float
    accepted: bool


def fit_prior(outcomes: Sequence[Outcome], positions: int) -> Calibration:
    """Fits a logistic regression per position.

    Whole drafts are best: where a window was chosen by confidence, late positions were seen only
    where the drafter was sure.

    Args:
        outcomes: of drafts of any number of texts.
        positions: tokens of a whole draft, one less than the block's rows.
    """
    if not outcomes:
        return Calibration.usual(positions)
    x = np.array([(1.0, score(one.confidence), one.temperature) for one in outcomes])
    y = np.array([one.accepted for one in outcomes], dtype=np.float64)
    at = np.array([one.position for one in outcomes])
    usual = np.array([USUAL_BIAS, USUAL_SLOPE, USUAL_HEAT])
    pooled = _fit(x, y, np.zeros(len(y)), usual, _TO_USUAL)
    heat = x[:, 2] * pooled[2]
    each = [
        _fit(x[at == n, :2], y[at == n], heat[at == n], pooled[:2], _TO_POOLED)
        for n in range(positions)
    ]
    bias = tuple(float(one[0]) for one in each)
    slope = tuple(max(0.0, float(one[1])) for one in each)
    return Calibration(bias, slope, float(pooled[2]), len(outcomes))


def _fit(x: Floats, y: Floats, given: Floats, around: Floats, firmness: Floats) -> Floats:
    """Newton's method for logistic regression with a normal prior.

    Args:
        x: [N, P] inputs.
        y: [N] outcomes.
        given: [N] what is added to each logit.
        around: [P] the prior's mean.
        firmness: [P] its inverse variances.
    """
    found = around.copy()
    for _ in range(_ROUNDS):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ found + given, -30.0, 30.0)))
        slope = x.T @ (y - p) - firmness * (found - around)
        curve = (x.T * (p * (1.0 - p))) @ x + np.diag(firmness)
        step = np.linalg.solve(curve, slope)
        found = found + np.clip(step, -2.0, 2.0)
        if float(np.abs(step).max()) < _NEAR:
            break
    return found
