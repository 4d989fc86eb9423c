"""What a loop is told: who drafts, how much is verified, whose features can wait."""

import itertools

import pytest

from draftwalk.settings import Sampling, Window
from draftwalk.window import Calibration, Certain, Measured, Offer, Spent, Windows
from support.replay import Prices, Watch, regimes, ride

POSITIONS = 7
AUTO = Window(auto=True)
SURE, UNSURE = (0.999,) * POSITIONS, (0.01,) * POSITIONS
CHEAP = Measured({rows: 4.0 + 0.1 * rows for rows in range(1, 9)})
DEAR = Measured({rows: 3.0 + 2.0 * rows for rows in range(1, 9)})


def made(found: Measured = CHEAP) -> Windows:
    windows = Windows(Calibration.usual(POSITIONS), clock=Watch())
    windows.measured(found)
    return windows


def step(windows: Windows, sure=SURE, stood: int = POSITIONS, draft: float = 1.0, slot: int = 0):
    """One step of a text; the window, or None where nothing was drafted."""
    size = None
    if windows.limits({slot: POSITIONS})[slot]:
        (size,) = windows.choose([Offer(slot, sure, 10)], Certain(1, 1, 10))
        windows.learn(slot, min(stood, size))
    rows = 1 + (size or 0)
    verify = windows.costs.of_pass(rows, 0)
    spent = Spent((slot,), rows, 0, False, draft if size is not None else 0.0, verify, 0.0)
    windows.spent(spent)
    return size


def test_a_fixed_window_is_all_there_is() -> None:
    windows = made()
    windows.begin(0, Window(), Sampling())
    assert [step(windows, UNSURE, stood=0) for _ in range(30)] == [POSITIONS] * 30
    assert windows.idle([0]) == set()
    assert not windows.wants_measures
    assert windows.survival.labels == 0


def test_plain_decoding_asks_for_nothing() -> None:
    windows = Windows(Calibration.usual(POSITIONS), clock=Watch())
    for window in (Window(n_max=0), Window(n_max=0, auto=True)):
        windows.begin(0, window, Sampling())
        assert windows.limits({0: POSITIONS})[0] == 0 == windows.asked(0)
        assert windows.idle([0]) == {0}, "its features can wait"
        assert not windows.wants_measures


def test_without_a_drafter_there_is_nothing_to_decide() -> None:
    windows = Windows(Calibration.usual(0))
    windows.begin(0, AUTO, Sampling())
    assert windows.limits({0: 0})[0] == 0
    assert windows.idle([0]) == set()
    assert not windows.wants_measures


def test_costs_are_measured_once_if_somebody_needs_them() -> None:
    windows = Windows(Calibration.usual(POSITIONS), clock=Watch())
    windows.begin(0, AUTO, Sampling(temperature=1.0, seed=1, rule="rejection"))
    assert not windows.wants_measures
    windows.begin(1, AUTO, Sampling())
    assert windows.wants_measures
    windows.measured(CHEAP)
    assert not windows.wants_measures


def test_sure_drafts_are_verified_whole_and_unsure_ones_hardly() -> None:
    windows = made()
    windows.begin(0, AUTO, Sampling())
    assert [step(windows) for _ in range(20)][-1] == POSITIONS
    windows = made(DEAR)
    windows.begin(0, AUTO, Sampling())
    assert [step(windows, UNSURE, stood=0) for _ in range(7)] == [0] * 7


def test_a_text_that_does_not_profit_stops_drafting() -> None:
    windows = made(DEAR)
    windows.begin(0, AUTO, Sampling())
    found = [step(windows, UNSURE, stood=0) for _ in range(300)]
    assert None not in found[:8]
    drafted = [n for n, size in enumerate(found) if size is not None]
    gaps = [b - a for a, b in itertools.pairwise(drafted)]
    assert gaps[7:] == [2, 4, 8, 16, 32, 64, 64, 64]
    assert all(found[n] == 1 for n in drafted[8:]), "what was paid for is looked at"
    assert windows.idle([0]) == {0}
    windows.begin(1, AUTO, Sampling())
    assert windows.limits({1: POSITIONS})[1] == 0, "the next text begins likewise"


def test_a_text_that_profits_again_drafts_again() -> None:
    windows = made()
    windows.begin(0, AUTO, Sampling())
    for _ in range(100):
        step(windows, UNSURE, stood=0, draft=9.0)
    assert windows.idle([0]) == {0}
    found = [step(windows, draft=1.0) for _ in range(200)]
    assert found[-60:].count(None) <= 1, "but for a look at what plain decoding costs"
    assert windows.idle([0]) == set()


def test_a_step_now_and_then_is_plain_where_all_draft() -> None:
    windows = made()
    windows.begin(0, AUTO, Sampling())
    found = [step(windows) for _ in range(600)]
    plain = [n for n, size in enumerate(found) if size is None]
    assert plain == [11, 35, 83, 179, 307, 435, 563]
    windows.begin(1, Window(n_max=2), Sampling())
    for _ in range(200):  # another text drafts in any case: the step would not be plain
        assert all(windows.limits({0: POSITIONS, 1: 2}).values())


def test_what_plain_decoding_costs_is_found_out_while_drafting_pays() -> None:
    """A first look that was wrong must not keep windows too short for good."""
    prices = Prices(lambda rows: 4.0 + 0.3 * rows, 0.5)
    windows = Windows(Calibration.usual(POSITIONS), clock=Watch())
    wrong = {rows: prices.passes(rows) for rows in range(1, POSITIONS + 2)} | {1: 3.6}
    windows.measured(Measured(wrong))
    ride(windows, regimes(8000, 10, POSITIONS + 1, 5), prices)
    ratio = windows.costs.of_pass(3, 0) / windows.costs.of_pass(1, 0)
    assert ratio == pytest.approx(prices.passes(3) / prices.passes(1), rel=0.03)


def test_whole_blocks_are_looked_at_evenly() -> None:
    """1.5% of drafts at first, fewer later, never two of them close together."""
    windows = made()
    windows.begin(0, AUTO, Sampling())
    sure = (0.9, 0.9, 0.01, 0.01, 0.01, 0.01, 0.01)
    whole = [n for n in range(4000) if step(windows, sure, stood=2) == POSITIONS]
    gaps = [b - a for a, b in itertools.pairwise(whole)]
    assert min(gaps[1:]) >= 60
    assert sum(n < 700 for n in whole) == pytest.approx(0.015 * 700, abs=2.5)
    assert gaps[-1] > 300


def test_whole_blocks_that_are_too_dear_are_looked_at_in_part() -> None:
    windows = made(DEAR)
    windows.begin(0, AUTO, Sampling())
    found = [step(windows, (0.9,) * POSITIONS, stood=1, draft=0.5) for _ in range(300)]
    sizes = [size for size in found if size is not None]
    # Three plain steps are 15; a draft and 1 + 5 rows are 15.5.
    assert max(sizes[40:]) == 4


def test_drafts_that_would_be_too_short_are_dropped() -> None:
    windows = made(DEAR)
    windows.begin(0, AUTO, Sampling())
    sure = (0.99, 0.01, 0.01, 0.01)
    windows.limits({0: POSITIONS})[0]
    (kept,) = windows.choose([Offer(0, sure, 10, least=1)], Certain(1, 1, 10))
    windows.limits({0: POSITIONS})[0]
    (dropped,) = windows.choose([Offer(0, sure, 10, least=3)], Certain(1, 1, 10))
    assert (kept, dropped) == (1, 0)


def test_texts_of_every_kind_share_a_step() -> None:
    windows = made()
    rejection = Sampling(temperature=1.0, seed=1, rule="rejection")
    windows.begin(0, AUTO, Sampling())
    windows.begin(1, Window(), Sampling())
    windows.begin(2, AUTO, rejection)
    windows.begin(3, Window(n_max=0), Sampling())
    for _ in range(20):
        limits = windows.limits(dict.fromkeys(range(4), POSITIONS))
        offers = [Offer(slot, (0.3,) * limit, 10) for slot, limit in limits.items() if limit]
        sizes = windows.choose(offers, Certain(4, 4, 40))
        found = {offer.slot: size for offer, size in zip(offers, sizes, strict=True)}
        assert found.get(1) == POSITIONS
        assert found.get(2, 0) == limits[2]
        assert limits[3] == 0
        for slot in range(4):
            windows.learn(slot, 1 if found.get(slot) else 0)


def test_a_row_that_could_not_be_judged_is_no_rejection() -> None:
    windows = made()
    windows.begin(0, AUTO, Sampling())
    windows.limits({0: POSITIONS})[0]
    windows.choose([Offer(0, SURE, 10)], Certain(1, 1, 10))
    windows.learn(0, 2, judged=False)
    assert windows.survival.labels == 2


def test_slots_are_used_again() -> None:
    windows = made()
    windows.begin(0, AUTO, Sampling())
    windows.end(0)
    windows.begin(0, Window(n_max=0), Sampling())
    assert windows.limits({0: POSITIONS})[0] == 0


DRAFTS = {tokens: 0.5 + 0.4 * tokens for tokens in range(1, POSITIONS + 1)}


def shortening(found: Measured = CHEAP) -> Windows:
    windows = Windows(Calibration.usual(POSITIONS), True, Watch())
    windows.measured(found)
    windows.begin(0, AUTO, Sampling())
    return windows


def lengths(windows: Windows, sure: float, steps: int, stood: int, drafts=DRAFTS) -> list[int]:
    """How many tokens were asked for in each of some steps, where all drafts are alike."""
    found = []
    for _ in range(steps):
        asked = windows.limits({0: POSITIONS})[0]
        found.append(asked)
        size = 0
        if asked:
            offer = Offer(0, (sure,) * asked, 10)
            (size,) = windows.choose([offer], Certain(1, 1, 10))
        windows.learn(0, min(stood, size))
        verify, draft = windows.costs.of_pass(1 + size, 0), drafts[asked] if asked else 0.0
        windows.spent(Spent((0,), 1 + size, 0, False, draft, verify, 0.0))
    return found


def test_drafts_are_as_long_as_they_are_worth() -> None:
    windows = shortening()
    assert lengths(windows, 0.999, 30, stood=POSITIONS)[-1] == POSITIONS
    unsure = lengths(windows, 0.3, 60, stood=1)
    assert 1 <= unsure[-1] <= 3
    assert POSITIONS in lengths(windows, 0.999, 15, stood=POSITIONS), "up again within some steps"


def test_now_and_then_a_whole_draft_is_made() -> None:
    windows = shortening()
    lengths(windows, 0.3, 60, stood=1)
    later = lengths(windows, 0.3, 200, stood=1)
    assert 1 <= later.count(POSITIONS) <= 6
    assert sum(later) < 4 * len(later)


def test_where_short_drafts_save_nothing_drafts_are_whole() -> None:
    windows = shortening()
    same = dict.fromkeys(DRAFTS, 1.0)
    assert lengths(windows, 0.3, 75, stood=1, drafts=same)[-10:] == [POSITIONS] * 10


def test_the_next_text_drafts_as_the_latest_one_did() -> None:
    windows = shortening()
    before = lengths(windows, 0.3, 60, stood=1)[-1]
    windows.end(0)
    windows.begin(0, AUTO, Sampling())
    assert abs(windows.limits({0: POSITIONS})[0] - before) <= 1 < POSITIONS - before


def test_drafts_that_do_not_shorten_are_whole() -> None:
    windows = made()
    windows.begin(0, AUTO, Sampling())
    assert set(lengths(windows, 0.3, 30, stood=1)) <= {0, POSITIONS}


def together(windows: Windows, sures, rooms, steps: int) -> list[dict[int, int]]:
    """What several texts ask for, step by step, where one token of each draft stands."""
    found = []
    for _ in range(steps):
        asked = windows.limits(dict(enumerate(rooms)))
        found.append(asked)
        drafting = [slot for slot in asked if asked[slot]]
        offers = [Offer(slot, (sures[slot],) * asked[slot], 10) for slot in drafting]
        sizes = windows.choose(offers, Certain(len(rooms), len(rooms), 10 * len(rooms)))
        for slot, size in zip(drafting, sizes, strict=True):
            windows.learn(slot, min(1, size))
        rows = len(rooms) + sum(sizes)
        drafted = len(drafting) * (max(asked.values()) + 1)
        slots = tuple(range(len(rooms)))
        draft = 0.3 + 0.2 * drafted if drafting else 0.0
        windows.spent(Spent(slots, rows, 0, False, draft, windows.costs.of_pass(rows, 0), 0.0))
    return found


def test_texts_of_a_batch_draft_shorter_too_and_all_alike() -> None:
    windows = shortening(Measured({rows: 3.0 + 0.5 * rows for rows in range(1, 33)}))
    windows.begin(1, AUTO, Sampling())
    found = together(windows, (0.3, 0.4), (POSITIONS, POSITIONS), 80)
    assert all(len({limit for limit in asked.values() if limit}) <= 1 for asked in found)
    drafted = [max(asked.values()) for asked in found[-30:] if any(asked.values())]
    assert sum(drafted) / len(drafted) < 4


def test_who_is_free_drafts_as_much_as_who_is_not() -> None:
    """Their rows are computed in any case; a text near its end has no more than its room."""
    windows = shortening()
    lengths(windows, 0.3, 60, stood=1)
    windows.begin(1, Window(n_max=5), Sampling())
    windows.begin(2, AUTO, Sampling())
    for _ in range(20):
        asked = windows.limits({0: POSITIONS, 1: 5, 2: 2})
        assert asked[1] == 5
        assert asked[0] == 0 or asked[0] >= 5
        assert asked[2] in (0, 2)


def test_drafts_are_no_shorter_than_what_is_verified_at_all() -> None:
    windows = shortening()
    lengths(windows, 0.3, 60, stood=1)
    windows.end(0)
    windows.begin(0, Window(auto=True, n_min=5), Sampling())
    asked = [windows.limits({0: POSITIONS})[0] for _ in range(40)]
    assert {5, POSITIONS} >= set(asked) - {0}
    assert 5 in asked


def test_a_draft_that_was_cut_to_nothing_is_no_matter() -> None:
    windows = shortening()
    windows.limits({0: POSITIONS})
    assert windows.choose([Offer(0, (), 10)], Certain(1, 1, 10)) == [0]
