"""Going back: the length that is returned is the one reached, and the text goes on from there."""

import pytest

from draftwalk.ops.memory import PAGE
from support.recurrent import EVERY
from support.states import KINDS, TEXT, Probe, assert_as_fresh

LENGTH = 140
LOOKED_AT = (0, 1, 5, 9, 62, 63, 64, 65, 66, 100, 127, 128, 129, 139, 140)


def expected(kind: str, length: int) -> int:
    """Nearest length from which the kind can go on, after a text of LENGTH."""
    if kind.startswith("window"):
        return length if held(int(kind.split()[1]), length) else 0
    if kind == "mixed windows":
        return length if held(8, length) else 0
    if kind == "sliding drafter":
        return length if held(5, length) else 0
    checkpoint = length if length == LENGTH else length // EVERY * EVERY
    if kind == "recurrent":
        return checkpoint
    if kind == "hybrid":
        return checkpoint if held(7, checkpoint) else 0
    return length


def held(window: int, length: int) -> bool:
    """Whether the pages that a row at `length` looks back on, or goes into, were kept at LENGTH."""
    first_kept_page = (LENGTH - window + 1) // PAGE
    needed = [*range(max(0, length - window + 1), length), *([length] if length % PAGE else [])]
    return all(place // PAGE >= first_kept_page for place in needed)


def long_text(kind: str) -> Probe:
    probe = KINDS[kind]()
    probe.state.open(0)
    for start in range(0, LENGTH, 35):
        probe.advance({0: (TEXT[start : start + 35], 35)})
    return probe


@pytest.mark.parametrize("kind", KINDS)
def test_every_length_answers_with_the_one_reached(kind: str) -> None:
    probe = long_text(kind)
    for length in range(LENGTH + 20):
        probe.state.fork(0, 1)
        promised = probe.state.reachable(1, length)
        assert promised == expected(kind, min(length, LENGTH))
        assert probe.state.truncate(1, length) == promised == probe.state.length(1)
        if length in LOOKED_AT:
            assert_as_fresh(kind, probe, 1, TEXT[:promised])
        probe.state.close(1)
    assert_as_fresh(kind, probe, 0, TEXT[:LENGTH])


@pytest.mark.parametrize("kind", KINDS)
def test_going_on_after_going_back(kind: str) -> None:
    probe = long_text(kind)
    length = LENGTH
    for back, forth in ((3, 9), (20, 4), (0, 2), (1, 70), (60, 30), (500, 20), (19, 64)):
        length = probe.state.truncate(0, max(0, length - back))
        other = TEXT[length : length + forth]  # the same text, so that `fresh` is known
        probe.advance({0: (other, forth)})
        length += forth
        assert_as_fresh(kind, probe, 0, TEXT[:length])


@pytest.mark.parametrize("kind", KINDS)
def test_another_text_after_going_back(kind: str) -> None:
    probe = long_text(kind)
    length = probe.state.truncate(0, LENGTH - 2)
    probe.advance({0: (TEXT[300:310], 10)})
    assert_as_fresh(kind, probe, 0, TEXT[:length] + TEXT[300:310])
