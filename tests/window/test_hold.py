"""A lone text's window is held for some steps where to settle it takes longer than it gains."""

import pytest

from draftwalk.settings import Sampling, Window
from draftwalk.window import Calibration, Certain, Measured, Offer, Spent, Windows
from draftwalk.window.hold import EVERY
from support.replay import Prices, Watch, best_fixed, new_windows, regimes, ride

POSITIONS = 7
AUTO = Window(auto=True)
PASSES = Measured({rows: 4.0 + 0.3 * rows for rows in range(1, POSITIONS + 2)})
LOOK = 0.2  # seconds, some 5% of a plain step


def made(look: float = LOOK, shortens: bool = True) -> Windows:
    windows = Windows(Calibration.usual(POSITIONS), shortens, Watch(look))
    windows.measured(PASSES)
    windows.begin(0, AUTO, Sampling())
    return windows


def run(
    windows: Windows, sure: float, stood: int, steps: int, least: int = 0
) -> list[tuple[int, int, bool]]:
    """For each step what was asked for, what was verified, and whether it was learned from."""
    found = []
    for _ in range(steps):
        before = windows.survival.labels
        asked = windows.limits({0: POSITIONS})[0]
        size = 0
        if asked:
            (size,) = windows.choose([Offer(0, (sure,) * asked, 10, least)], Certain(1, 1, 10))
        windows.learn(0, min(stood, size))
        verify, draft = windows.costs.of_pass(1 + size, 0), 0.5 + 0.2 * asked if asked else 0.0
        windows.spent(Spent((0,), 1 + size, 0, False, draft, verify, 0.0))
        found.append((asked, size, windows.survival.labels > before))
    return found


def looks(steps: list[tuple[int, int, bool]]) -> float:
    """The share of steps that were learned from."""
    return sum(learned for *_, learned in steps) / len(steps)


def test_where_all_drafts_are_alike_one_step_in_some_looks() -> None:
    windows = made()
    run(windows, 0.8, stood=3, steps=100)
    later = run(windows, 0.8, stood=3, steps=200)
    assert looks(later) == pytest.approx(1 / EVERY, abs=0.03)
    held = [(asked, size) for asked, size, learned in later if asked and not learned]
    assert {asked == size for asked, size in held} == {True}, "no more is drafted than verified"
    assert max(size for _, size in held) - min(size for _, size in held) <= 1


def test_where_looking_is_free_every_step_looks() -> None:
    windows = made(look=0.0)
    found = run(windows, 0.8, stood=3, steps=200)
    assert looks(found) > 0.95


def test_where_drafts_differ_much_every_step_looks() -> None:
    """Their confidence tells, so windows that follow it gain more than a look costs."""
    windows = made(shortens=False)
    found = []
    for _ in range(100):
        found += run(windows, 0.9999, stood=POSITIONS, steps=1)
        found += run(windows, 0.02, stood=0, steps=2)
    sizes = [size for _, size, _ in found[-90:]]
    assert sum(size >= 5 for size in sizes[::3]) >= 20
    assert sum(size == 0 for size in [*sizes[1::3], *sizes[2::3]]) >= 50


def test_a_text_whose_drafts_fail_is_looked_at_and_given_up() -> None:
    windows = made()
    run(windows, 0.9, stood=5, steps=100)
    found = run(windows, 0.02, stood=0, steps=150)
    assert any(asked == 0 for asked, *_ in found[: 12 * EVERY])
    assert [asked for asked, *_ in found[-10:]].count(0) >= 8


def test_the_next_text_holds_soon() -> None:
    windows = made()
    run(windows, 0.8, stood=3, steps=100)
    windows.end(0)
    windows.begin(0, AUTO, Sampling())
    assert looks(run(windows, 0.8, stood=3, steps=24)) < 0.5


def test_drafts_that_do_not_shorten_are_made_whole_and_verified_in_part() -> None:
    windows = made(shortens=False)
    run(windows, 0.5, stood=1, steps=100)
    later = run(windows, 0.5, stood=1, steps=100)
    held = [(asked, size) for asked, size, learned in later if asked and not learned]
    assert held
    assert {asked for asked, _ in held} == {POSITIONS}
    assert max(size for _, size in held) < POSITIONS


def test_what_is_verified_at_least_is_held_too() -> None:
    windows = made()
    run(windows, 0.5, stood=1, steps=100)
    windows.end(0)
    windows.begin(0, Window(auto=True, n_min=5), Sampling())
    later = run(windows, 0.5, stood=1, steps=100, least=5)
    assert {size for _, size, _ in later} <= {0, 5, 6, 7}


def test_company_ends_it() -> None:
    windows = made()
    run(windows, 0.8, stood=3, steps=100)
    windows.begin(1, AUTO, Sampling())
    for _ in range(20):
        asked = windows.limits({0: POSITIONS, 1: POSITIONS})
        offers = [Offer(slot, (0.8,) * room, 10) for slot, room in asked.items() if room]
        before = windows.survival.labels
        sizes = windows.choose(offers, Certain(2, 2, 20))
        for offer, size in zip(offers, sizes, strict=True):
            windows.learn(offer.slot, min(3, size))
        assert not any(sizes) or windows.survival.labels > before


@pytest.mark.parametrize("knows", [1.0, 0.0])
@pytest.mark.parametrize("passes", [(4.0, 0.05), (4.0, 0.3), (3.0, 1.0)])
def test_it_keeps_up_with_the_best_fixed_window_although_looks_cost(
    passes: tuple[float, float], knows: float
) -> None:
    first, more = passes
    prices = Prices(lambda rows: first + more * rows, 1.0, token=0.05)
    ratios = []
    for length in (1, 16, 1000):
        log = regimes(4000, length, 16, 7 * length, knows)
        watch = Watch(0.04 * prices.passes(1))
        windows = new_windows(prices, 16, watch=watch)
        found = ride(windows, log, prices, watch=watch)
        ratios.append(found.speed / best_fixed([log], prices, 16))
    assert min(ratios) >= 0.94, ratios
    assert sum(ratios) / len(ratios) >= 0.965, ratios
