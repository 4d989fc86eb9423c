"""Forked sequences share memory until they write; then none sees the other's rows."""

import pytest

from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.state.pages import PagedKV
from support.models import CPU, new_pages
from support.states import KINDS, TEXT, assert_as_fresh


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [0, 10, 64, 70])
def test_parent_and_child_go_separate_ways(kind: str, length: int) -> None:
    probe = KINDS[kind]()
    probe.state.open(0)
    if length:
        probe.advance({0: (TEXT[:length], length)})
    probe.state.fork(0, 1)
    probe.state.fork(1, 2)
    texts = {0: TEXT[:length], 1: TEXT[:length], 2: TEXT[:length]}
    for turn in range(2):
        parts = {}
        for slot in texts:
            tokens = TEXT[100 * slot + 7 * turn :][:5]
            parts[slot] = (tokens, 5 - (slot + turn) % 3)
            texts[slot] = texts[slot] + tokens[: parts[slot][1]]
        if turn:
            probe.advance(parts)
        else:  # one after the other: the parent writes first, into pages it shares
            for slot in parts:
                probe.advance({slot: parts[slot]})
        for slot, tokens in texts.items():
            assert_as_fresh(kind, probe, slot, tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_outlives_its_parents(kind: str) -> None:
    probe = KINDS[kind]()
    probe.state.open(0)
    probe.advance({0: (TEXT[:70], 70)})
    probe.state.fork(0, 1)
    probe.advance({1: (TEXT[70:75], 5)})
    probe.state.fork(1, 2)
    probe.state.close(0)
    probe.state.close(1)
    probe.state.open(0)  # gets the pages that are free now
    probe.advance({0: (TEXT[200:330], 130)})
    assert_as_fresh(kind, probe, 2, TEXT[:75])
    probe.advance({2: (TEXT[75:80], 4)})
    assert_as_fresh(kind, probe, 2, TEXT[:79])
    assert_as_fresh(kind, probe, 0, TEXT[200:330])


def write(state: PagedKV, slot: int, count: int) -> None:
    rows = Rows.lay_out([Rowset(slot, [0] * count, state.length(slot), "none")], CPU)
    with pass_over(state, rows) as kept:
        kept[slot] = count


def test_only_pages_that_are_written_are_copied() -> None:
    state = new_pages(2, 1, 4, None)
    state.open(0)
    write(state, 0, 200)
    assert state.pages_in_use == 4
    state.fork(0, 1)
    state.fork(0, 2)
    assert state.pages_in_use == 4
    write(state, 1, 1)  # the last page is partly full
    assert state.pages_in_use == 5
    write(state, 0, 64)  # shared with slot 2 still
    assert state.pages_in_use == 7
    write(state, 2, 1)  # nobody shares its last page any more
    assert state.pages_in_use == 7
    for slot in (1, 0, 2):
        state.close(slot)
    assert state.pages_in_use == 0
