"""What a target's passes cost on this machine: a quick look, for windows to be chosen by."""

from __future__ import annotations

from collections.abc import Iterator

from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.target import StateT, Target
from draftwalk.window import Measured

_SECONDS = 1.5  # for all sizes, but for what was begun
_PASSES = 24  # of one row, that all sizes may take: a short text must not wait for its windows
_TIMES = 2  # of which the shorter counts: noise only adds
_LEAST_CONTEXT = 64  # places that show what context costs
_MOST = 0.5  # of a pass's time that its context is believed to cost by the row


def measure_passes(
    target: Target[StateT], state: StateT, taps: tuple[int, ...], slot: int, free: int, most: int
) -> Measured:
    """Times passes of 1 to `most` rows; fewer sizes on a slow machine, coarse ones first.

    Args:
        target: whose passes they are.
        state: its memory, which is left as it was.
        taps: layers that are tapped.
        slot: of a text, behind which the rows stand.
        free: one that is free.
        most: rows of the largest pass.
    """
    now = target.ops.now
    context = state.length(slot)

    def once(slot: int, rows: int) -> float:
        table = Rows.lay_out([Rowset(slot, [0] * rows, state.length(slot))], target.ops.device)
        start = now()
        with pass_over(state, table):  # nothing of it is kept
            target.forward(table, state, taps)
            return now() - start

    def seconds(slot: int, rows: int) -> float:
        once(slot, rows)  # a back end may prepare itself for the size
        return min(once(slot, rows) for _ in range(_TIMES))

    passes = {1: seconds(slot, 1)}
    end = now() - _TIMES * passes[1] + min(_SECONDS, _PASSES * passes[1])
    for rows in _coarse_to_fine(min(most, target.context - context)):
        if now() >= end:
            break
        passes[rows] = seconds(slot, rows)
    if context < _LEAST_CONTEXT or len(passes) == 1:
        return Measured(passes)
    state.open(free)
    try:
        empty = {rows: seconds(free, rows) for rows in (1, max(passes))}
    finally:
        state.close(free)
    place = _place(passes, empty, context)
    return Measured({rows: taken - place * rows * context for rows, taken in passes.items()}, place)


def _place(passes: dict[int, float], empty: dict[int, float], context: int) -> float:
    """Seconds more for each place that a further row sees.

    To read the context is dear for the first row, and little is added by the others.
    """
    largest = max(passes)
    more = passes[largest] - empty[largest] - (passes[1] - empty[1])
    believed = _MOST * passes[largest] / largest
    return min(max(0.0, more / (largest - 1)), believed) / context


def _coarse_to_fine(most: int) -> Iterator[int]:
    """`most`, then the middles of what lies between 1 and it, and so on."""
    if most > 1:
        yield most
    gaps = [(1, most)]
    for low, high in gaps:
        if high - low > 1:
            middle = (low + high) // 2
            yield middle
            gaps += [(low, middle), (middle, high)]
