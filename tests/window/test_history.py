"""Under the rejection rule a window is settled before its draft, by what became of earlier ones."""

from draftwalk.settings import Sampling, Window
from draftwalk.window import Calibration, Certain, Offer, Windows
from draftwalk.window.history import History

POSITIONS = 7


def windows_of(history: History, stood: int, steps: int) -> list[int]:
    """Windows while a fixed number of tokens would stand."""
    found = []
    for _ in range(steps):
        window = history.limit(POSITIONS)
        found.append(window)
        history.learn(window, min(stood, window))
    return found


def test_it_grows_where_drafts_stand() -> None:
    assert windows_of(History(POSITIONS), POSITIONS, 60)[-1] == POSITIONS


def test_it_shrinks_where_they_stand_in_part() -> None:
    assert windows_of(History(POSITIONS), 2, 200)[-30:].count(2) > 20


def test_it_stops_where_none_does_and_tries_again() -> None:
    found = windows_of(History(POSITIONS), 0, 300)
    assert sum(map(bool, found[-200:])) < 20
    assert any(found[-100:])
    assert max(found[-100:]) == 1, "a probe verifies as little as it can"


def test_whole_blocks_are_looked_at_now_and_then() -> None:
    found = windows_of(History(POSITIONS), 2, 200)
    assert found[63] == found[127] == POSITIONS


def test_room_is_a_limit() -> None:
    history = History(POSITIONS)
    for _ in range(100):
        window = history.limit(3)
        assert window <= 3
        history.learn(window, window)


def play(windows: Windows, slot: int, seconds: float, company: bool) -> list[int]:
    """Windows of a text by rejection, with confidences and costs that should not matter."""
    windows.begin(slot, Window(auto=True), Sampling(temperature=1.0, seed=1, rule="rejection"))
    if company:
        windows.begin(slot + 1, Window(auto=True), Sampling())
    found = []
    for step in range(150):
        slots = (slot, slot + 1) if company else (slot,)
        limits = windows.limits(dict.fromkeys(slots, POSITIONS))
        limit = limits[slot]
        found.append(limit)
        sure = (0.99 if company else 0.1,) * limit
        offers = [Offer(slot, sure, step)] if limit else []
        if limits.get(slot + 1):
            offers.append(Offer(slot + 1, (0.5,) * limits[slot + 1], 3))
        sizes = windows.choose(offers, Certain(2, 2, step)) if offers else []
        if limit:
            assert sizes[0] == limit, "nothing is cut off after the draft was made"
        windows.learn(slot, min(limit, step % 4))
        windows.costs.rest = seconds
    return found


def test_neither_times_nor_confidence_nor_company_matter() -> None:
    plain = play(Windows(Calibration.usual(POSITIONS)), 0, 1e-3, company=False)
    taught = Windows(Calibration((3.0,) * POSITIONS, (0.0,) * POSITIONS, labels=10**6))
    assert play(taught, 4, 50.0, company=True) == plain
    assert len(set(plain)) > 2
