"""A lone text's window is held for some steps where to settle it takes longer than it gains."""

import random

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
    windows: Windows,
    sure: float,
    stood: int,
    steps: int,
    least: int = 0,
    slow: float = 1.0,
    token: float = 0.2,
) -> list[tuple[int, int, bool]]:
    """For each step what was asked for, what was verified, and whether it was learned from.

    All takes `slow` times as long as it did.
    """
    found = []
    for _ in range(steps):
        before = windows.survival.labels
        asked = windows.limits({0: POSITIONS})[0]
        size = 0
        if asked:
            (size,) = windows.choose([Offer(0, (sure,) * asked, 10, least)], Certain(1, 1, 10))
        windows.learn(0, min(stood, size))
        verify, draft = 4.3 + 0.3 * size, 0.5 + token * asked if asked else 0.0
        windows.spent(Spent((0,), 1 + size, 0, False, slow * draft, slow * verify, 0.0))
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


@pytest.mark.parametrize("slow", [1.0, 8.0])
def test_where_drafts_differ_much_windows_follow_confidence(slow: float) -> None:
    """That gains more than a look costs, however slow the machine is."""
    windows = made(look=slow * LOOK, shortens=False)
    found = []
    for _ in range(100):
        found += run(windows, 0.9999, stood=POSITIONS, steps=1, slow=slow)
        found += run(windows, 0.02, stood=0, steps=2, slow=slow)
    sizes = [size for _, size, _ in found[-90:]]
    assert sum(size >= 5 for size in sizes[::3]) >= 20
    assert sum(size == 0 for size in [*sizes[1::3], *sizes[2::3]]) >= 50


def test_a_text_whose_drafts_fail_is_given_up_as_soon_as_without_holding() -> None:
    spent = []
    for look in (LOOK, 0.0):
        windows = made(look)
        run(windows, 0.9, stood=5, steps=200)
        found = run(windows, 0.02, stood=0, steps=250)
        assert windows.idle([0]) == {0}
        spent.append(sum(size for _, size, _ in found))
    held, looked = spent
    assert held <= looked + 6 * POSITIONS, "held windows of six steps more, no more than that"
    probes = [asked for asked, *_ in found[-100:] if asked]
    assert probes
    assert max(probes) <= 2, "nothing is left of the window that was held"


def test_nothing_is_held_while_drafting_is_off() -> None:
    probes = 0
    for seed in range(12):
        draw, windows = random.Random(seed), made()
        for _ in range(600):
            off, before = windows.idle([0]), windows.survival.labels
            ((asked, size, _),) = run(windows, 0.5, int(draw.random() < 0.55), 1, token=0.4)
            if off and asked:
                probes += 1
                assert size, "what was drafted is looked at"
                assert windows.survival.labels > before
    assert probes > 50


def test_what_a_held_window_costs_is_still_learned() -> None:
    windows = made()
    run(windows, 0.8, stood=3, steps=100)
    (length,) = {asked for asked, _, learned in run(windows, 0.8, 3, 40) if asked and not learned}
    known = windows.costs.of_draft(length + 1)
    for _ in range(200):
        asked = windows.limits({0: POSITIONS})[0]
        size = 0
        if asked:
            (size,) = windows.choose([Offer(0, (0.8,) * asked, 10)], Certain(1, 1, 10))
        windows.learn(0, min(3, size))
        verify = windows.costs.of_pass(1 + size, 0)
        draft = (2.0 if asked == length else 1.0) * (0.5 + 0.2 * asked) if asked else 0.0
        windows.spent(Spent((0,), 1 + size, 0, False, draft, verify, 0.0))
    assert windows.costs.of_draft(length + 1) > 1.15 * known


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


def test_drafts_that_do_not_shorten_cost_the_same_at_every_window() -> None:
    """The price of a whole draft decides what is held, whatever is verified of it."""
    known = Calibration((1.0,) * POSITIONS, (0.0,) * POSITIONS, labels=10**6)  # 0.73 for each
    windows = Windows(known, False, Watch(LOOK))
    windows.measured(PASSES)
    windows.begin(0, AUTO, Sampling())
    held = set()
    for number in range(300):
        before = windows.survival.labels
        asked = windows.limits({0: POSITIONS})[0]
        size = 0
        if asked:
            (size,) = windows.choose([Offer(0, (0.5,) * asked, 10)], Certain(1, 1, 10))
        windows.learn(0, min((0, 1, 2, 3, 5)[number % 5], size))
        if number > 100 and size and windows.survival.labels == before:
            held.add(size)
        draft = 4.0 if asked else 0.0
        windows.spent(Spent((0,), 1 + size, 0, False, draft, 4.3 + 0.3 * size, 0.0))
    # (1 + 0.73 + ... + 0.73^w) / (8.3 + 0.3 w) is greatest at 6, at 4 if drafts of w cost less.
    assert held == {6}


@pytest.mark.parametrize(("least", "most"), [(5, POSITIONS), (0, 2), (3, 4)])
def test_held_windows_keep_within_what_was_asked_for(least: int, most: int) -> None:
    windows = made()
    run(windows, 0.9, stood=3, steps=100)
    windows.end(0)
    windows.begin(0, Window(auto=True, n_min=least, n_max=most), Sampling())
    held = []
    for _ in range(100):
        before = windows.survival.labels
        asked = windows.limits({0: most})[0]
        size = 0
        if asked:
            (size,) = windows.choose([Offer(0, (0.9,) * asked, 10, least)], Certain(1, 1, 10))
        windows.learn(0, min(3, size))
        if size and windows.survival.labels == before:
            held.append(size)
    assert held
    assert least <= min(held)
    assert max(held) <= most


def test_a_least_that_does_not_pay_is_not_held() -> None:
    """Six tokens or none: none, although two would pay."""
    windows = Windows(Calibration.usual(POSITIONS), True, Watch(LOOK))
    windows.measured(Measured({rows: 3.0 + 1.2 * rows for rows in range(1, POSITIONS + 2)}))
    windows.begin(0, Window(auto=True, n_min=6), Sampling())
    run(windows, 0.5, stood=1, steps=150, least=6)
    later = run(windows, 0.5, stood=1, steps=100, least=6)
    assert sum(size > 0 for _, size, _ in later) <= 5


def test_drafts_cut_by_confidence_are_always_looked_at() -> None:
    windows = made()
    windows.end(0)
    windows.begin(0, Window(auto=True, p_min=0.3), Sampling())
    assert looks(run(windows, 0.8, stood=3, steps=200)) > 0.9


def test_company_ends_it() -> None:
    windows = made()
    run(windows, 0.8, stood=3, steps=100)
    one_by_one = (run(windows, 0.8, stood=3, steps=1)[0] for _ in range(20))
    assert any(not learned for *_, learned in one_by_one), "now one of seven steps was held"
    windows.begin(1, AUTO, Sampling())
    for _ in range(9):
        asked = windows.limits({0: POSITIONS, 1: POSITIONS})
        slots = [slot for slot, room in asked.items() if room]
        offers = [Offer(slot, (0.8,) * asked[slot], 10) for slot in slots]
        before = windows.survival.labels
        sizes = windows.choose(offers, Certain(2, 2, 20))
        for slot, size in zip(slots, sizes, strict=True):
            windows.learn(slot, min(3, size))
        assert not any(sizes) or windows.survival.labels > before
    windows.end(1)
    alone = [learned for asked, _, learned in run(windows, 0.8, stood=3, steps=3) if asked]
    assert alone[0], "it looks before it holds again"


@pytest.mark.parametrize("knows", [1.0, 0.0], ids=["confidence tells", "confidence tells nothing"])
@pytest.mark.parametrize("passes", [(4.0, 0.05), (4.0, 0.3), (3.0, 1.0)])
def test_holding_gains_where_looks_tell_little_and_loses_little_elsewhere(
    passes: tuple[float, float], knows: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, more = passes
    prices = Prices(lambda rows: first + more * rows, 1.0, token=0.05)

    def speeds() -> list[float]:
        found = []
        for length in (1, 16, 1000):
            log = regimes(4000, length, 16, 7 * length, knows)
            watch = Watch(0.04 * prices.passes(1))
            windows = new_windows(prices, 16, watch=watch)
            done = ride(windows, log, prices, watch=watch)
            found.append(done.speed / best_fixed([log], prices, 16))
        return found

    held = speeds()
    monkeypatch.setattr("draftwalk.window.hold._FIRST", 10**9)
    looked = speeds()
    gains = [a / b for a, b in zip(held, looked, strict=True)]
    assert min(held) >= 0.94, held
    assert min(gains) >= 0.96, gains
    assert sum(gains) / len(gains) >= (0.985 if knows else 1.0), gains
    assert max(gains) > 1.005, gains
