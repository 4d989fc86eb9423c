"""How likely the tokens of a draft are to stand, learned from those that were put to the test.

A token at position j tells something only if it was at risk: verified, and all tokens before it
stood. Each outcome moves the calibration by one step of an extended Kalman filter for logistic
regression: what is known well moves little, and what is known fades slowly, so that it follows a
change of subject. A text has an offset of its own on top, since texts differ more than positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from draftwalk.window.calibration import Calibration, score, sigmoid

_MOST = 6.2  # of a logit, either way: nothing is certain
# Variances of what is believed at first: of a calibration from no labels, and of one from many.
_BIAS, _SLOPE = 1.0, 0.1
_FIRM = 0.05
_HEAT = 0.5
_OFFSET = 0.4  # of texts
# What each outcome adds to a variance, since things change.
_DRIFT_BIAS, _DRIFT_SLOPE = 1e-4, 5e-5
_REMEMBERED = 0.98  # of a text's offset, by each step
_INFORMATION = 0.15  # of a typical outcome about a bias


@dataclass(slots=True)
class Offset:
    """How much more likely the tokens of one text are to stand than those of others, as a logit."""

    value: float = 0.0
    variance: float = _OFFSET

    def pass_on(self) -> None:
        """A step further, what was true of the text is a little less so."""
        self.value *= _REMEMBERED
        self.variance = _OFFSET + _REMEMBERED * _REMEMBERED * (self.variance - _OFFSET)


@dataclass(slots=True)
class _Position:
    """Bias and slope with their covariance."""

    bias: float
    slope: float
    bias_variance: float
    slope_variance: float
    covariance: float = 0.0


class Survival:
    """Probabilities of drafted tokens.

    Args:
        prior: where learning starts; one bias and slope for each position of a draft.
    """

    def __init__(self, prior: Calibration) -> None:
        firm = 1.0 / (1.0 + _INFORMATION * prior.labels / max(1, len(prior.bias)))
        bias, slope = max(_BIAS * firm, _FIRM), max(_SLOPE * firm, 0.1 * _FIRM)
        self._positions = [
            _Position(b, s, bias, slope) for b, s in zip(prior.bias, prior.slope, strict=True)
        ]
        self._heat = prior.heat
        self._heat_variance = max(_HEAT * firm, _FIRM)
        self.labels = 0

    def learned(self, labels: int) -> Calibration:
        """What is believed now, as a calibration from so many labels."""
        bias = tuple(one.bias for one in self._positions)
        slope = tuple(one.slope for one in self._positions)
        return Calibration(bias, slope, self._heat, labels)

    def chances(
        self, confidence: Sequence[float], temperature: float, offset: Offset
    ) -> list[float]:
        """For each token, that it stands if those before it do."""
        shift = self._heat * temperature + offset.value
        found = []
        for one, sure in zip(self._positions, confidence, strict=False):
            logit = one.bias + one.slope * score(sure) + shift
            found.append(1.0 / (1.0 + exp(-_MOST if logit > _MOST else min(-logit, _MOST))))
        return found

    def learn(
        self,
        confidence: Sequence[float],
        temperature: float,
        offset: Offset,
        verified: int,
        accepted: int,
    ) -> None:
        """Takes in what became of a draft.

        Args:
            confidence: of its tokens.
            temperature: the text's.
            offset: the text's, which learns too.
            verified: tokens that were put to the test, as far as that went.
            accepted: tokens that stood.
        """
        for n in range(min(verified, accepted + 1, len(self._positions))):
            self._move(n, score(confidence[n]), temperature, offset, float(n < accepted))

    def _move(
        self, position: int, x: float, temperature: float, offset: Offset, outcome: float
    ) -> None:
        one = self._positions[position]
        p = sigmoid(one.bias + one.slope * x + self._heat * temperature + offset.value)
        weight = max(p * (1.0 - p), 0.02)
        # Covariance of each parameter with the logit.
        bias = one.bias_variance + one.covariance * x
        slope = one.covariance + one.slope_variance * x
        heat = self._heat_variance * temperature
        spread = bias + slope * x + heat * temperature + offset.variance
        gain = 1.0 / (1.0 + weight * spread)
        step, shrink = gain * (outcome - p), gain * weight
        one.bias += bias * step
        one.slope = max(0.0, one.slope + slope * step)  # never less likely for being surer
        self._heat += heat * step
        offset.value += offset.variance * step
        one.bias_variance += _DRIFT_BIAS - shrink * bias * bias
        one.slope_variance += _DRIFT_SLOPE - shrink * slope * slope
        one.covariance -= shrink * bias * slope
        self._heat_variance -= shrink * heat * heat
        offset.variance -= shrink * offset.variance * offset.variance
        self.labels += 1
