"""Passes of the native back end with a clock between their calls; without it nothing is slower."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from draftwalk.ops import Operations
from draftwalk.rows import Rows


@dataclass(frozen=True, slots=True)
class TimedPass:
    """One pass.

    Attributes:
        key: whose it is, as the pass itself says.
        calls: kind of kernel and seconds, in the order they ran.
        clocked_s: what it took with the clock.
        seconds: what it took once more without.
    """

    key: tuple[Hashable, ...]
    calls: list[tuple[str, float]]
    clocked_s: float
    seconds: float


@contextmanager
def timed_passes(ops: Operations) -> Iterator[list[TimedPass]]:
    """While it is open, every pass is replayed with a clock between its calls, then as always."""
    from draftwalk.ops.native import NativeOperations  # needs the extension

    assert isinstance(ops, NativeOperations), "only recorded passes know their calls"
    run, found = ops.run, list[TimedPass]()

    def timed(
        key: tuple[Hashable, ...],
        rows: Rows,
        inputs: tuple[Tensor, ...],
        body: Callable[[Rows, tuple[Tensor, ...]], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        start = time.perf_counter()
        calls = ops.times(key, rows, inputs, body)
        between = time.perf_counter()
        outputs = run(key, rows, inputs, body)
        end = time.perf_counter()
        found.append(TimedPass(key, calls, between - start, end - between))
        return outputs

    ops.run = timed  # type: ignore[method-assign]
    try:
        yield found
    finally:
        del ops.run
