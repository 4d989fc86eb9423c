"""What a target's passes cost on this machine: a quick look, for windows to be chosen by."""

from __future__ import annotations

from collections.abc import Iterator

from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.target import StateT, Target
from draftwalk.window import Measured

_SECONDS = 1.5  # for all of it, but for what was begun
_TIMES = 3  # of which the shortest counts: noise only adds
_CONTEXT, _LEAST_CONTEXT = 256, 64  # rows read to see what context costs, as many as time allows
_MOST = 0.5  # of a pass's time that so much context is believed to cost


def measure_passes(
    target: Target[StateT], state: StateT, taps: tuple[int, ...], slots: tuple[int, int], most: int
) -> Measured:
    """Times passes of 1 to `most` rows; fewer sizes on a slow machine, coarse ones first.

    Args:
        target: whose passes they are.
        state: its memory, which is left as it was.
        taps: layers that are tapped.
        slots: two that are free.
        most: rows of the largest pass.
    """
    now = target.ops.now
    end = now() + _SECONDS
    empty, read = slots

    def seconds(slot: int, rows: int, kept: int = 0) -> float:
        rowset = Rowset(slot, [0] * rows, state.length(slot), "none" if kept else "all")
        table = Rows.lay_out([rowset], target.ops.device)
        start = now()
        with pass_over(state, table) as keeping:
            target.forward(table, state, taps)
            keeping[slot] = kept
            return now() - start

    for slot in slots:
        state.open(slot)
    try:
        passes: dict[int, float] = {}
        for rows in _coarse_to_fine(most):
            if passes and now() >= end:
                break
            seconds(empty, rows)  # a back end may prepare itself for the size
            passes[rows] = min(seconds(empty, rows) for _ in range(_TIMES))
        largest = max(passes)
        affordable = int((end - now()) / passes[largest] * largest)  # rows
        context = min(_CONTEXT, target.context - most, affordable)
        if context < _LEAST_CONTEXT:
            return Measured(passes)
        seconds(read, context, kept=context)
        pairs = [(seconds(empty, largest), seconds(read, largest)) for _ in range(_TIMES + 2)]
        without, behind = (min(times) for times in zip(*pairs, strict=True))
        more = min(max(0.0, behind - without), _MOST * without)
        return Measured(passes, more / (largest * context))
    finally:
        for slot in slots:
            state.close(slot)


def _coarse_to_fine(most: int) -> Iterator[int]:
    """1 and `most`, then the middles of what lies between, and so on."""
    yield from dict.fromkeys((1, most))
    gaps = [(1, most)]
    for low, high in gaps:
        if high - low > 1:
            middle = (low + high) // 2
            yield middle
            gaps += [(low, middle), (middle, high)]
