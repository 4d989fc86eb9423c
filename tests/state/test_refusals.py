"""What a state cannot do it raises, and a pass that fails leaves everything as it was."""

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import pytest

from draftwalk.draft.none import CountingState
from draftwalk.errors import RollbackError
from draftwalk.rows import Rows, Rowset
from draftwalk.state import State, pass_over
from draftwalk.state.model import ModelState
from draftwalk.state.pages import PagedKV
from support.models import CPU
from support.states import KINDS, TEXT, Probe, assert_as_fresh

# States of rows that nothing was computed for.
WITHOUT_COMPUTING = ("full", "window 5", "mixed windows", "drafter", "counting")


def started(kind: str) -> Probe:
    probe = KINDS[kind]()
    for slot, length in ((0, 10), (1, 5)):
        probe.state.open(slot)
        probe.advance({slot: (TEXT[:length], length)})
    return probe


def rows_after(*rowsets: tuple[int, int, int]) -> Rows:
    """Rows of slots: (slot, context, count)."""
    return Rows.lay_out([Rowset(slot, [0] * n, context) for slot, context, n in rowsets], CPU)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [{0: 3, 1: 5}, {0: -1, 1: 1}])
def test_keeping_rows_that_the_pass_did_not_have(kind: str, kept: Mapping[int, int]) -> None:
    probe = started(kind)
    probe.state.begin(rows_after((0, 10, 4), (1, 5, 4)))
    with pytest.raises(RollbackError):
        probe.state.commit(kept)


@pytest.mark.parametrize("kind", WITHOUT_COMPUTING)
def test_a_refused_commit_changes_nothing(kind: str) -> None:
    probe = started(kind)
    with pytest.raises(RollbackError):  # noqa: SIM117
        with pass_over(probe.state, rows_after((0, 10, 4), (1, 5, 4))) as kept:
            kept.update({0: 2, 1: 7})
    assert_as_fresh(kind, probe, 0, TEXT[:10])
    assert_as_fresh(kind, probe, 1, TEXT[:5])


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_things(kind: str) -> None:
    state = started(kind).state
    with pytest.raises(AssertionError):
        state.commit({0: 0})  # there is no pass
    with pytest.raises(AssertionError):
        state.open(1)  # in use
    with pytest.raises(AssertionError):
        state.fork(0, 1)
    state.begin(rows_after((0, 10, 2)))
    with pytest.raises(AssertionError):
        state.begin(rows_after((1, 5, 2)))  # the pass before was not committed
    with pytest.raises(AssertionError):
        state.commit({0: 0, 1: 0})  # slot 1 is not in it
    state.commit({0: 0})
    with pytest.raises(AssertionError):
        state.commit({0: 0})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("context", [0, 4, 6, 64])
def test_a_pass_that_does_not_continue_what_is_committed(kind: str, context: int) -> None:
    probe = started(kind)
    with pytest.raises(AssertionError):
        probe.state.begin(rows_after((0, 10, 2), (1, context, 2)))
    probe.advance({0: (TEXT[10:12], 2), 1: (TEXT[5:6], 1)})  # and the next pass works
    assert_as_fresh(kind, probe, 0, TEXT[:12])
    assert_as_fresh(kind, probe, 1, TEXT[:6])


def break_off(probe: Probe, error: type[BaseException]) -> None:
    with pass_over(probe.state, rows_after((0, 10, 70))) as kept:
        kept[0] = 60
        raise error


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_that_raises_keeps_nothing(kind: str) -> None:
    probe = started(kind)
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            break_off(probe, error)
        assert_as_fresh(kind, probe, 0, TEXT[:10])
    probe.advance({0: (TEXT[10:16], 3)})
    assert_as_fresh(kind, probe, 0, TEXT[:13])


def pages_in_use(state: State) -> int:
    kinds = state.kinds if isinstance(state, ModelState) else [state]
    return sum(kind.pages_in_use for kind in kinds if isinstance(kind, PagedKV))


class Interrupted:
    """A state whose commit is broken off before the line that comes `at` from its start."""

    def __init__(self, state: State, at: int) -> None:
        self.begin, self.abandon = state.begin, state.abandon
        self._commit, self._left = state.commit, at

    def commit(self, kept: Mapping[int, int]) -> None:
        sys.settrace(self._watch)
        try:
            self._commit(kept)
        finally:
            sys.settrace(None)

    def _watch(self, frame: FrameType, event: str, _argument: object) -> Any:
        self._left -= event == "line"
        if not self._left:
            sys.settrace(None)
            raise KeyboardInterrupt
        return self._watch


@pytest.mark.parametrize("kind", WITHOUT_COMPUTING)
def test_an_interrupt_anywhere_in_a_commit_leaves_no_pass_open(kind: str) -> None:
    """The sequences can be closed, others go on, and no page is lost but the one in its hands."""
    for at in range(1, 400):
        probe = started(kind)
        probe.state.open(2)
        broken: Any = Interrupted(probe.state, at)
        try:
            with pass_over(broken, rows_after((0, 10, 70), (2, 0, 3))) as kept:
                kept.update({0: 60, 2: 2})
        except KeyboardInterrupt:
            pass
        else:
            break
        for slot in (0, 2):
            probe.state.close(slot)
        probe.advance({1: (TEXT[5:9], 4)})
        assert_as_fresh(kind, probe, 1, TEXT[:9])
        probe.state.close(1)
        assert pages_in_use(probe.state) <= 1
    assert 3 < at < 399


class FullMemory(CountingState):
    """Has no room for more than 8 rows in a pass."""

    def begin(self, rows: Rows) -> None:
        if rows.size > 8:
            raise MemoryError
        super().begin(rows)


def test_one_kind_that_cannot_begin_stops_all() -> None:
    state = ModelState([CountingState(), FullMemory(), CountingState()])
    state.open(0)
    with pytest.raises(MemoryError), pass_over(state, rows_after((0, 0, 9))):
        pass
    with pass_over(state, rows_after((0, 0, 8))) as kept:
        kept[0] = 8
    assert [kind.length(0) for kind in state.kinds] == [8, 8, 8]
