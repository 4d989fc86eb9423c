"""Hundreds of random openings, passes, forks, retreats and closings against plain lists.

Every row carries its own number as key and value, so that what a state holds can be read back and
compared with a list of numbers; after each action no page may be lost or shared by mistake.
"""

from collections.abc import Callable, Iterable

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)
from torch import Tensor

from draftwalk.ops.memory import PAGE
from draftwalk.ops.torch import DensePool
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.state.model import ModelState
from draftwalk.state.pages import FREED, PagedKV
from support.models import CPU, new_pages, store
from support.recurrent import EVERY, RecurrentState

STATES: list[Callable[[], ModelState]] = [
    lambda: ModelState([pages(None)]),
    lambda: ModelState([pages(1), pages(70)]),
    lambda: ModelState([pages(None), pages(5), pages(64)]),
    lambda: ModelState([RecurrentState(1)]),
    lambda: ModelState([RecurrentState(1), pages(65)]),
]


def pages(window: int | None) -> PagedKV:
    return new_pages(2, 1, 2, window)


def follow(h: float, value: float) -> float:
    """A recurrence whose end tells all that went into it."""
    return (0.3 * h + value) % 1000.0


def compute(state: ModelState, rows: Rows, values: Tensor) -> None:
    """What the layers of a pass would write."""
    for kind in state.kinds:
        if isinstance(kind, PagedKV):
            for layer in range(2):
                k = (values + 0.25 * layer)[:, None, None].expand(-1, 1, 2)
                store(k, -k, kind.layer(layer), rows)
        else:
            assert isinstance(kind, RecurrentState)
            for span in rows.spans:
                h = float(kind.value(span.sequence))
                for value in values[span.start : span.stop].tolist():
                    h = follow(h, value)
                    kind.after_rows[span.sequence].append(torch.tensor([h], dtype=torch.float64))


def check(state: ModelState, slot: int, wanted: list[int]) -> None:
    """The slot holds what the list says, as far back as it has to."""
    for kind in state.kinds:
        assert kind.length(slot) == len(wanted)
        if isinstance(kind, PagedKV):
            check_pages(kind, slot, wanted)
        else:
            assert isinstance(kind, RecurrentState)
            h = 0.0
            for value in wanted:
                h = follow(h, value)
            assert float(kind.value(slot)) == h


def check_pages(kind: PagedKV, slot: int, wanted: list[int]) -> None:
    start = 0 if kind.window is None else max(0, len(wanted) - kind.window + 1)
    expected = torch.tensor(wanted[start:], dtype=torch.float64)
    for layer in range(2):
        table, pool = kind._tables[slot], kind.layer(layer).pool
        assert isinstance(pool, DensePool)
        assert len(table) == -(-len(wanted) // PAGE)
        places = torch.arange(start, len(wanted))
        at = torch.tensor(table, dtype=torch.int64)[places // PAGE] * PAGE + places % PAGE
        assert torch.equal(pool.k[layer][..., 0].reshape(-1)[at], expected + 0.25 * layer)
        assert torch.equal(pool.v[layer][..., 1].reshape(-1)[at], -expected - 0.25 * layer)


def pages_of(kind: PagedKV, slots: Iterable[int]) -> set[int]:
    return {page for slot in slots for page in kind._tables[slot] if page != FREED}


class Histories(RuleBasedStateMachine):
    """`texts` is what each slot ought to remember."""

    slots = Bundle("slots")

    @initialize(which=st.sampled_from(range(len(STATES))))
    def begin(self, which: int) -> None:
        self.state = STATES[which]()
        self.texts: dict[int, list[int]] = {}
        self.next_row = 1
        self.next_slot = 0

    def new_slot(self) -> int:
        self.next_slot += 1
        return self.next_slot

    def rows_of(self, slot: int, count: int) -> list[int]:
        self.next_row += count
        return list(range(self.next_row - count, self.next_row))

    @rule(target=slots)
    def open(self) -> int:
        slot = self.new_slot()
        self.state.open(slot)
        self.texts[slot] = []
        return slot

    @rule(
        chosen=st.lists(slots, min_size=1, max_size=3, unique=True),
        sizes=st.lists(st.sampled_from([1, 2, 6, 7, 63, 64, 65, 130]), min_size=3, max_size=3),
        kept=st.lists(st.floats(0, 1), min_size=3, max_size=3),
        fails=st.integers(0, 9),
    )
    def advance(self, chosen: list[int], sizes: list[int], kept: list[float], fails: int) -> None:
        parts = {slot: self.rows_of(slot, size) for slot, size in zip(chosen, sizes, strict=False)}
        rows = Rows.lay_out(
            [Rowset(s, part, self.state.length(s), "none") for s, part in parts.items()], CPU
        )
        keeps = {
            slot: round(share * len(parts[slot])) for slot, share in zip(parts, kept, strict=False)
        }
        try:
            with pass_over(self.state, rows) as keep:
                compute(self.state, rows, rows.tokens.double())
                keep.update(keeps)
                if fails == 0:
                    raise InterruptedError
        except InterruptedError:
            return
        for slot, count in keeps.items():
            self.texts[slot] += parts[slot][:count]

    @rule(target=slots, source=slots)
    def fork(self, source: int) -> int:
        into = self.new_slot()
        self.state.fork(source, into)
        self.texts[into] = list(self.texts[source])
        return into

    @rule(slot=slots, back=st.sampled_from([0, 1, 3, 20, 64, 1000]))
    def truncate(self, slot: int, back: int) -> None:
        asked = max(0, len(self.texts[slot]) - back)
        promised = self.state.reachable(slot, asked)
        reached = self.state.truncate(slot, asked)
        assert reached == promised <= asked
        simple = len(self.state.kinds) == 1
        if simple and isinstance(self.state.kinds[0], PagedKV):
            assert reached == asked, "full pages go back to any length"
        if back == 0:
            assert reached == asked
        if simple and isinstance(self.state.kinds[0], RecurrentState):
            assert asked - reached < EVERY or reached == 0
        del self.texts[slot][reached:]

    @rule(target=slots, source=slots)
    def copy(self, source: int) -> int:
        into = self.new_slot()
        self.state.load(into, self.state.save(source))
        self.texts[into] = list(self.texts[source])
        return into

    @rule(target=slots, slot=consumes(slots))
    def close(self, slot: int):
        self.state.close(slot)
        del self.texts[slot]
        return multiple()

    @invariant()
    def holds_what_it_should(self) -> None:
        for slot, text in self.texts.items():
            check(self.state, slot, text)

    @invariant()
    def loses_no_page(self) -> None:
        for kind in self.state.kinds:
            if isinstance(kind, PagedKV):
                assert kind.pages_in_use == len(pages_of(kind, self.texts))

    def teardown(self) -> None:
        for slot in self.texts:
            self.state.close(slot)
        for kind in self.state.kinds:
            if isinstance(kind, PagedKV):
                assert kind.pages_in_use == 0


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, derandomize=True, database=None
)
