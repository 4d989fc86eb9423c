"""The calibration that a drafter carries is found in records of its drafts."""

import random

import pytest

from draftwalk.window.calibration import Calibration, score, sigmoid
from draftwalk.window.fit import Outcome, fit_prior

TRUTH = Calibration((-0.8, -0.2, 0.4), (0.6, 1.1, 0.9), heat=-0.8)


def draft(confidence: tuple[float, ...], accepted: int, temperature: float = 0.0):
    """What became of a draft's tokens."""
    for n, sure in enumerate(confidence[: accepted + 1]):
        yield Outcome(n, sure, temperature, n < accepted)


def outcomes(count: int, temperature: float, seed: int = 1):
    draw = random.Random(seed)
    for _ in range(count):
        sure = tuple(sigmoid(draw.gauss(1.0, 1.5)) for _ in range(3))
        stood = 0
        while stood < 3 and draw.random() < sigmoid(
            TRUTH.bias[stood] + TRUTH.slope[stood] * score(sure[stood]) + TRUTH.heat * temperature
        ):
            stood += 1
        yield from draft(sure, stood, temperature)


def test_it_finds_what_is_true() -> None:
    found = fit_prior([*outcomes(8000, 0.0), *outcomes(8000, 1.0, seed=2)], 3)
    assert found.bias == pytest.approx(TRUTH.bias, abs=0.15)
    assert found.slope == pytest.approx(TRUTH.slope, abs=0.15)
    assert found.heat == pytest.approx(TRUTH.heat, abs=0.1)
    assert 16000 < found.labels < 48000


def test_without_outcomes_it_is_the_usual_one() -> None:
    assert fit_prior([], 4) == Calibration.usual(4)


def test_positions_that_nobody_reached_are_like_the_others() -> None:
    found = fit_prior([*outcomes(3000, 0.0)], 5)
    assert len(found.bias) == len(found.slope) == 5
    assert found.bias[3:] == (pytest.approx(found.bias[4], abs=1e-9),) * 2
    assert min(TRUTH.bias) - 0.2 < found.bias[4] < max(TRUTH.bias) + 0.2


@pytest.mark.parametrize("accepted", [0, 3])
def test_always_the_same_outcome(accepted: int) -> None:
    found = fit_prior([*draft((0.9, 0.5, 0.99), accepted)] * 500, 3)
    chance = sigmoid(found.bias[0] + found.slope[0] * score(0.9))
    assert chance > 0.95 if accepted else chance < 0.05
    assert min(found.slope) >= 0
