"""Through recorded texts with given costs: as fast as the best fixed window, or faster.

The regimes are those in which fixed windows are furthest from what is possible: passages of easy
and hard tokens of many lengths, and costs that are flat, straight, steep or stairs.
"""

import math

import pytest

from draftwalk.window.fit import Outcome, fit_prior
from support.replay import Prices, best_fixed, new_windows, regimes, ride

BLOCK, LENGTH = 16, 5000
RUNS = (1, 4, 16, 100, 1000)
PRICES = {
    "flat": Prices(lambda rows: 4.0 + 0.05 * rows, 1.5),
    "straight": Prices(lambda rows: 3.0 + 1.0 * rows, 2.0),
    "steep": Prices(lambda rows: 2.0 + 2.0 * rows, 3.0),
    "stairs of 8": Prices(lambda rows: 5.0 * math.ceil(rows / 8) + 0.5, 2.0),
    "stairs of 4": Prices(lambda rows: 3.0 + 2.0 * math.ceil(rows / 4), 2.0),
    "drafts by the token": Prices(lambda rows: 3.0 + 0.7 * rows, 0.5, token=0.2),
    "cheap tokens": Prices(lambda rows: 4.0 + 0.3 * rows, 0.8, token=0.05),
}


def prior(knows: float):
    """What a drafter would carry: fitted on other texts."""
    logs = [regimes(1500, run, BLOCK, 900 + run, knows) for run in RUNS]
    places = [place for log in logs for place in log[::5]]
    outcomes = [
        Outcome(n, sure, 0.0, n < place.right)
        for place in places
        for n, sure in enumerate(place.confidence[: place.right + 1])
    ]
    return fit_prior(outcomes, BLOCK - 1)


@pytest.mark.parametrize("knows", [1.0, 0.0], ids=["confidence tells", "confidence tells nothing"])
@pytest.mark.parametrize("name", PRICES)
def test_as_fast_as_the_best_fixed_window(name: str, knows: float) -> None:
    prices, known = PRICES[name], prior(knows)
    ratios = []
    for run in RUNS:
        log = regimes(LENGTH, run, BLOCK, 7 * run, knows)
        windows = new_windows(prices, BLOCK, known)
        ratios.append(ride(windows, log, prices).speed / best_fixed([log], prices, BLOCK))
    assert min(ratios) >= 0.96, ratios
    assert sum(ratios) / len(ratios) >= 0.98, ratios
    if knows and name == "stairs of 4":
        assert max(ratios) > 1.1, "where texts change, no fixed window is right"


def test_where_drafting_never_pays_next_to_nothing_is_lost() -> None:
    prices = PRICES["steep"]
    log = regimes(LENGTH, 10, BLOCK, 3, rates=(0.3, 0.2))
    windows = new_windows(prices, BLOCK, prior(1.0))
    found = ride(windows, log, prices)
    plain = 1.0 / prices.passes(1)
    assert found.speed >= 0.98 * plain
    assert found.off >= 0.95 * found.steps
    again = ride(windows, log, prices)
    assert again.speed >= 0.98 * plain
    first = ride(windows, log[:20], prices)
    assert first.off >= first.steps - 2, "the next text knows"
