"""Sliding layers give pages back at commit, and only those that no row to come can see."""

import pytest

from draftwalk.ops.memory import PAGE
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from support.models import CPU, new_pages
from support.states import WINDOWS


def pages_needed(window: int, length: int) -> int:
    """Pages with a place that the row at `length` sees, itself left out."""
    return len({place // PAGE for place in range(max(0, length - window + 1), length)})


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("chunk", [1, 6, 37, 64, 130])
def test_pages_held_over_a_long_text(window: int, chunk: int) -> None:
    state = new_pages(1, 1, 2, window)
    state.open(0)
    length = 0
    for step in range(900 // chunk):
        rows = Rows.lay_out([Rowset(0, [0] * chunk, length, "none")], CPU)
        with pass_over(state, rows) as kept:
            assert state.pages_in_use <= pages_needed(window, length) + chunk // PAGE + 2
            kept[0] = chunk - step % 2 * (chunk // 2)
        length += kept[0]
        spare = 1 if window == 1 and length % PAGE else 0  # the page that is being filled
        assert state.pages_in_use == max(pages_needed(window, length), spare)
    assert state.bytes <= (window // PAGE + chunk // PAGE + 20) * PAGE * 2 * 2 * 8, "bounded"


@pytest.mark.parametrize("window", WINDOWS)
def test_rejected_rows_free_nothing(window: int) -> None:
    state = new_pages(1, 1, 2, window)
    state.open(0)
    for context, size, keep in ((0, 60, 60), (60, 200, 3)):
        rows = Rows.lay_out([Rowset(0, [0] * size, context, "none")], CPU)
        with pass_over(state, rows) as kept:
            kept[0] = keep
    # Measured from what was committed, 63, not from where the pass ended.
    assert state.pages_in_use == 1
    assert state.reachable(0, 63) == 63
