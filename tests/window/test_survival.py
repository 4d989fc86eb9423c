"""Acceptance is learned, and only from tokens that were at risk."""

import math
import random

import pytest

from draftwalk.window.calibration import Calibration, score, sigmoid
from draftwalk.window.survival import Offset, Survival

POSITIONS = 5
TRUTH = Calibration((-0.8, -0.2, 0.1, -0.5, 0.3), (0.6, 1.1, 0.9, 0.4, 0.8), heat=-1.0)


def truth(position: int, confidence: float, temperature: float = 0.0) -> float:
    logit = TRUTH.bias[position] + TRUTH.slope[position] * score(confidence)
    return sigmoid(logit + TRUTH.heat * temperature)


def drafts(count: int, seed: int, temperature: float = 0.0):
    """Confidence of each token, and how many stood."""
    draw = random.Random(seed)
    for _ in range(count):
        sure = [sigmoid(draw.gauss(1.5, 1.5)) for _ in range(POSITIONS)]
        stood = 0
        while stood < POSITIONS and draw.random() < truth(stood, sure[stood], temperature):
            stood += 1
        yield sure, stood


def error(survival: Survival, temperature: float = 0.0) -> float:
    """Mean distance from the true probabilities."""
    total, count = 0.0, 0
    for sure, _ in drafts(300, 99, temperature):
        found = survival.chances(sure, temperature, Offset())
        for n, chance in enumerate(found):
            total += abs(chance - truth(n, sure[n], temperature))
            count += 1
    return total / count


def test_it_converges_to_what_is_true() -> None:
    survival = Survival(Calibration.usual(POSITIONS))
    before = error(survival)
    for sure, stood in drafts(6000, 1):
        survival.learn(sure, 0.0, Offset(variance=0.0), POSITIONS, stood)
    assert error(survival) < 0.03 < before


@pytest.mark.parametrize("sure_enough", [0.6, 0.8])
def test_windows_chosen_by_confidence_do_not_mislead_it(sure_enough: float) -> None:
    """Late positions are seen only where the drafter is sure; what is learned is still right."""
    survival = Survival(Calibration.usual(POSITIONS))
    draw = random.Random(5)
    for sure, stood in drafts(12000, 2):
        window = next((n for n in range(POSITIONS) if sure[n] < sure_enough), POSITIONS)
        if draw.random() < 0.02:
            window = POSITIONS
        survival.learn(sure, 0.0, Offset(variance=0.0), window, min(stood, window))
    assert error(survival) < 0.06


def test_tokens_behind_a_rejected_one_say_nothing() -> None:
    survival = Survival(Calibration.usual(POSITIONS))
    before = survival.chances([0.5] * POSITIONS, 0.0, Offset())
    for _ in range(50):
        survival.learn([0.5] * POSITIONS, 0.0, Offset(variance=0.0), POSITIONS, 1)
    after = survival.chances([0.5] * POSITIONS, 0.0, Offset())
    assert after[0] > before[0] + 0.05
    assert after[1] < before[1] - 0.05
    assert after[2:] == before[2:], "never at risk"
    assert survival.labels == 100


def test_tokens_that_were_not_verified_say_nothing() -> None:
    survival = Survival(Calibration.usual(POSITIONS))
    before = survival.chances([0.5] * POSITIONS, 0.0, Offset())
    survival.learn([0.5] * POSITIONS, 0.0, Offset(), 0, 0)
    assert survival.chances([0.5] * POSITIONS, 0.0, Offset()) == before
    survival.learn([0.5] * POSITIONS, 0.0, Offset(), 2, 2)
    assert survival.labels == 2


def test_temperature_is_a_reason_of_its_own() -> None:
    survival = Survival(Calibration.usual(POSITIONS))
    pairs = zip(drafts(4000, 3), drafts(4000, 4, temperature=1.0), strict=True)
    for (cold, cold_stood), (warm, warm_stood) in pairs:
        survival.learn(cold, 0.0, Offset(variance=0.0), POSITIONS, cold_stood)
        survival.learn(warm, 1.0, Offset(variance=0.0), POSITIONS, warm_stood)
    assert error(survival) < 0.04
    assert error(survival, 1.0) < 0.04


def test_a_text_has_an_offset_that_fades() -> None:
    survival, offset = Survival(Calibration.usual(POSITIONS)), Offset()
    for _ in range(10):
        survival.learn([0.5] * POSITIONS, 0.0, offset, POSITIONS, POSITIONS)
    easy = survival.chances([0.5], 0.0, offset)
    assert easy > survival.chances([0.5], 0.0, Offset())
    for _ in range(500):
        offset.pass_on()
    assert abs(offset.value) < 0.01
    assert offset.variance == pytest.approx(Offset().variance, rel=1e-3)


def test_nothing_breaks_it() -> None:
    """Confidences that are none, thousands of the same outcome: probabilities stay such."""
    survival, offset = Survival(Calibration.usual(3)), Offset()
    for sure in (0.0, 1.0, math.nan, -1.0, 2.0, math.inf, 1e-300):
        for stood in (0, 3):
            for _ in range(2000):
                offset.pass_on()
                survival.learn([sure] * 3, 100.0, offset, 3, stood)
            found = survival.chances([sure] * 3, 100.0, offset)
            assert all(0.0 < chance < 1.0 for chance in found), (sure, stood, found)


def test_what_was_learned_can_be_kept() -> None:
    survival = Survival(TRUTH)
    assert survival.learned(7) == Calibration(TRUTH.bias, TRUTH.slope, TRUTH.heat, 7)
    sure = [0.3, 0.6, 0.9, 0.2, 0.5]
    expected = [truth(n, one, 0.5) for n, one in enumerate(sure)]
    assert survival.chances(sure, 0.5, Offset()) == pytest.approx(expected)
