"""How confidence and acceptance belong together, as a drafter's checkpoint says it.

At position j of a draft, given that all tokens before it stand, the token stands with probability

    sigmoid(bias_j + slope_j * logit(confidence) + heat * temperature)

where confidence is the drafter's own for the step it took, before temperature and filters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_MOST = 6.0  # of a logit: beyond it a drafter is sure, and how sure says no more
_SMALLEST = 1.0 / (1.0 + math.exp(_MOST))
USUAL_BIAS, USUAL_SLOPE, USUAL_HEAT = -0.3, 0.8, 0.0  # drafters tend to be too sure


@dataclass(frozen=True, slots=True)
class Calibration:
    """Where learning starts.

    Attributes:
        bias: by position, the first drafted token's first.
        slope: likewise.
        heat: what a temperature of 1 adds.
        labels: how many outcomes it was fitted to; the fewer, the sooner it is given up.
    """

    bias: tuple[float, ...]
    slope: tuple[float, ...]
    heat: float = USUAL_HEAT
    labels: int = 0

    @staticmethod
    def usual(positions: int) -> Calibration:
        """Of a drafter that says nothing."""
        return Calibration((USUAL_BIAS,) * positions, (USUAL_SLOPE,) * positions)


def score(confidence: float) -> float:
    """The logit of a confidence, bounded; a confidence that is no number counts as none."""
    if not confidence > _SMALLEST:
        return -_MOST
    if confidence >= 1.0 - _SMALLEST:
        return _MOST
    return math.log(confidence / (1.0 - confidence))


def sigmoid(x: float) -> float:
    """From a logit to a probability."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)
