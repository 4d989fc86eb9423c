"""Costs are followed on a machine that has other things to do."""

import random

import pytest

from draftwalk.window import Measured, Spent
from draftwalk.window.costs import Costs
from draftwalk.window.curve import Curve

PASSES = {1: 4.0, 2: 4.5, 3: 5.5, 4: 6.0, 8: 9.0}


def spent(rows: int, verify: float, draft: float = 2.0, places: int = 0, reading=False) -> Spent:
    return Spent((0,), rows, places, reading, draft, verify, 0.1)


def learned(costs: Costs, steps, blocks: int = 1) -> Costs:
    for step in steps:
        costs.learn(step, blocks)
    return costs


def test_between_known_sizes_costs_are_straight() -> None:
    curve = Curve()
    for size, cost in PASSES.items():
        curve.set(size, cost)
    assert [curve.at(size) for size in PASSES] == [*PASSES.values()]
    assert curve.at(6) == pytest.approx(7.5)
    assert curve.at(16) == pytest.approx(9.0 + 8 * 0.75), "as from 4 to 8"
    assert curve.at(0) == 2.0, "half of a cost is for being there at all"


def test_noise_makes_no_small_pass_dear() -> None:
    costs = Costs.of(Measured({1: 7.0, 2: 5.0, 3: 6.0, 4: 5.5}))
    assert [costs.of_pass(rows, 0) for rows in (1, 2, 3, 4)] == [5.0, 5.0, 5.5, 5.5]


def test_a_single_size_says_little() -> None:
    curve = Curve()
    curve.set(1, 4.0)
    assert curve.at(1) == 4.0
    assert 4.0 < curve.at(8) < 32.0


def test_a_dip_at_the_end_does_not_go_on() -> None:
    curve = Curve()
    for size, cost in {1: 4.0, 4: 8.0, 8: 6.0}.items():
        curve.set(size, cost)
    assert curve.at(64) == 6.0


def test_new_costs_are_taken_over_little_by_little() -> None:
    """A neighbour makes everything half as slow again for some rows only: no, that is a change."""
    costs = Costs.of(Measured(PASSES))
    draw = random.Random(1)
    steps = []
    for _ in range(600):
        rows = draw.choice((1, 2, 4))
        factor = 1.4 if rows == 4 else 1.0
        steps.append(spent(rows, PASSES[rows] * factor * draw.uniform(0.9, 1.1)))
    learned(costs, steps)
    ratio = costs.of_pass(4, 0) / costs.of_pass(1, 0)
    assert ratio == pytest.approx(1.4 * PASSES[4] / PASSES[1], rel=0.08)


def test_a_slow_machine_changes_no_ratio() -> None:
    """Costs of sizes that are not seen keep up with those that are."""
    costs = learned(Costs.of(Measured(PASSES)), [spent(2, PASSES[2], 2.0)] * 50)
    before = [costs.of_pass(rows, 0) / costs.of_draft(1) for rows in PASSES]
    learned(costs, [spent(2, 1.8 * PASSES[2], 1.8 * 2.0)] * 300)
    after = [costs.of_pass(rows, 0) / costs.of_draft(1) for rows in PASSES]
    assert after == pytest.approx(before, rel=0.06)


def test_outliers_are_passed_over_until_they_persist() -> None:
    costs = learned(Costs.of(Measured(PASSES)), [spent(2, PASSES[2])] * 20)
    before = costs.of_pass(2, 0), costs.of_draft(1)
    for _ in range(40):  # every third pass is interrupted
        learned(costs, [spent(2, PASSES[2])] * 2 + [spent(2, 50 * PASSES[2], 100.0)])
    assert (costs.of_pass(2, 0), costs.of_draft(1)) == pytest.approx(before, rel=0.01)
    learned(costs, [spent(2, 5 * PASSES[2], 10.0)] * 100)
    assert costs.of_pass(2, 0) / costs.of_draft(1) == pytest.approx(before[0] / before[1], rel=0.1)


def test_one_draft_that_took_long_does_little() -> None:
    costs = learned(Costs.of(Measured(PASSES)), [spent(2, PASSES[2], 2.0)] * 30)
    before = costs.of_draft(1)
    learned(costs, [spent(2, PASSES[2], 500.0)])
    assert costs.of_draft(1) < 1.15 * before


def test_the_first_pass_of_a_shape_does_not_count() -> None:
    """It may have been recorded first."""
    costs = learned(Costs.of(Measured(PASSES)), [spent(6, 20.0, 30.0)])
    assert costs.of_pass(6, 0) == pytest.approx(7.5)
    assert costs.of_draft(1) == PASSES[1], "as much as a row, until it was seen"
    learned(costs, [spent(6, 7.5, 2.0)])
    assert costs.of_draft(1) == pytest.approx(2.0, rel=0.01)


def test_passes_that_read_prompts_say_nothing() -> None:
    costs = learned(Costs.of(Measured(PASSES)), [spent(4, 15.0, reading=True)] * 50)
    assert costs.of_pass(4, 0) == PASSES[4]


def test_context_costs() -> None:
    costs = Costs.of(Measured(PASSES, place=0.001))
    assert costs.of_pass(4, 4 * 1000) == pytest.approx(PASSES[4] + 4.0)
    steps = [spent(4, PASSES[4] + 4.0, places=4000)] * 100
    learned(costs, steps)
    assert costs.of_pass(4, 0) == pytest.approx(PASSES[4], rel=0.01)
    assert costs.of_pass(1, 0) == pytest.approx(PASSES[1], rel=0.01)


def test_nothing_measured_is_a_guess() -> None:
    costs = Costs()
    assert 0 < costs.of_pass(1, 0) < costs.of_pass(8, 100)
    assert costs.of_draft(1) > 0


def test_one_slow_draft_of_a_new_size_is_no_verdict() -> None:
    costs = Costs.of(Measured(PASSES))
    for rows, seconds in ((8, 1.0), (8, 1.0), (4, 0.6), (4, 10.0)):
        costs.learn(spent(2, PASSES[2], seconds), rows)
    for _ in range(200):
        costs.learn(spent(2, PASSES[2], 0.6), 4)
    assert costs.of_draft(4) == pytest.approx(0.6, rel=0.1)
