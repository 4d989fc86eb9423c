"""Committing the first m of n rows leaves what a run leaves that only ever saw those m."""

import pytest

from support.states import KINDS, TEXT, VOCABULARY, assert_as_fresh

ROWS = 6  # an anchor and a draft


def draft_after(length: int) -> list[int]:
    """Rows that continue the text; were they all kept, the text would be TEXT."""
    return TEXT[length : length + ROWS]


@pytest.mark.parametrize("kind", KINDS)
def test_every_prefix_of_a_pass(kind: str) -> None:
    for kept in range(ROWS + 1):
        probe = KINDS[kind]()
        lengths = {0: 0, 1: 11, 2: 61, 3: 70}  # 61: pages fill up inside the pass
        for slot, length in lengths.items():
            probe.state.open(slot)
            if length:
                probe.advance({slot: (TEXT[:length], length)})
        # Each sequence of the pass keeps another number of its rows.
        keeps = {slot: (kept + slot) % (ROWS + 1) for slot in lengths}
        probe.advance({slot: (draft_after(n), keeps[slot]) for slot, n in lengths.items()})
        for slot, length in lengths.items():
            assert_as_fresh(kind, probe, slot, TEXT[: length + keeps[slot]])


@pytest.mark.parametrize("kind", KINDS)
def test_rejected_rows_leave_no_trace_behind_the_accepted_ones(kind: str) -> None:
    probe = KINDS[kind]()
    probe.state.open(0)
    length = 0
    for step, kept in enumerate((6, 1, 3, 2, 6, 5, 4, 1, 1, 6) * 3):
        wrong = [(token + 1 + step) % VOCABULARY for token in TEXT[length + kept : length + ROWS]]
        probe.advance({0: (TEXT[length : length + kept] + wrong, kept)})
        length += kept
    assert_as_fresh(kind, probe, 0, TEXT[:length])


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_of_which_nothing_is_kept(kind: str) -> None:
    probe = KINDS[kind]()
    probe.state.open(0)
    probe.advance({0: (TEXT[:63], 63)})
    for _ in range(3):
        probe.advance({0: (TEXT[100:140], 0)})
        assert_as_fresh(kind, probe, 0, TEXT[:63])


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_that_end_around_page_edges(kind: str) -> None:
    for chunks in ((63, 1, 1, 62, 1), (64, 64), (65, 63, 1), (1, 63, 64), (127, 2), (128, 1)):
        probe = KINDS[kind]()
        probe.state.open(5)
        length = 0
        for size in chunks:
            probe.advance({5: (TEXT[length : length + size], size)})
            length += size
            assert_as_fresh(kind, probe, 5, TEXT[:length])
