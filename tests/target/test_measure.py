"""A quick look at what passes cost, on a clock that only passes move."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch

from draftwalk.rows import Rows
from draftwalk.target.measure import measure_passes

ONCE, ROW, PLACE_ONCE, PLACE = 3.0, 0.25, 0.002, 0.0005
RECORDING = 0.002
BLOCK = 8


@dataclass
class Lengths:
    """A state that knows how long its texts are, and nothing else."""

    lengths: dict[int, int]
    opened: list[int] = field(default_factory=list)

    def open(self, slot: int) -> None:
        self.opened.append(slot)
        self.lengths[slot] = 0

    def close(self, slot: int) -> None:
        del self.lengths[slot]

    def length(self, slot: int) -> int:
        return self.lengths[slot]

    def begin(self, rows: Rows) -> None:
        pass

    def commit(self, kept: Mapping[int, int]) -> None:
        assert not any(kept.values()), "the text stays as it was"


class Clocked:
    """A target whose passes take the time they are said to; the first of a size takes longer."""

    def __init__(self, cost: Callable[[int, int], float], context: int = 4096) -> None:
        self.time, self.passes, self.context = 0.0, 0, context
        self.ops = SimpleNamespace(now=lambda: self.time, device=torch.device("cpu"))
        self._cost = cost
        self._sizes: set[int] = set()

    def forward(self, rows: Rows, _state: object, _taps: tuple[int, ...]) -> None:
        (span,) = rows.spans
        assert span.context + span.size <= self.context
        self.passes += 1
        self.time += self._cost(span.size, span.context)
        if span.size not in self._sizes:
            self._sizes.add(span.size)
            self.time += RECORDING


def cost(rows: int, context: int) -> float:
    return 1e-3 * (ONCE + ROW * rows + context * (PLACE_ONCE + PLACE * rows))


def measured(target: Clocked, length: int):
    state = Lengths({3: length})
    found = measure_passes(target, state, (), 3, 0, BLOCK)  # type: ignore[type-var]
    assert state.lengths == {3: length}
    return found


def test_costs_where_the_text_stands() -> None:
    """Passes behind the text's context, and what each further place of a row adds."""
    found = measured(Clocked(cost), 300)
    assert {1, 4, 8} <= found.passes.keys()
    assert found.place == pytest.approx(1e-3 * PLACE)
    for rows, seconds in found.passes.items():
        assert seconds + found.place * rows * 300 == pytest.approx(cost(rows, 300))


def test_a_short_context_says_nothing_of_places() -> None:
    target = Clocked(cost)
    found = measured(target, 20)
    assert found.place == 0.0
    assert found.passes[1] == pytest.approx(cost(1, 20))


def test_it_takes_no_longer_than_some_tokens() -> None:
    target = Clocked(cost)
    measured(target, 300)
    assert target.time < 45 * cost(1, 300)
    slow = Clocked(lambda rows, context: 1e3 * cost(rows, context))
    assert measured(slow, 300).passes.keys() == {1}


def test_the_end_of_the_context_is_not_passed() -> None:
    assert max(measured(Clocked(cost, context=303), 300).passes) == 3


def test_places_that_cost_nothing_or_less_are_free() -> None:
    found = measured(Clocked(lambda rows, context: 1e-3 * rows - 1e-7 * context * rows), 300)
    assert found.place == 0.0
