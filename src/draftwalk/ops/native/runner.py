"""What every operation of the native back end stands on: threads, recordings, and a tape."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from torch import Tensor

from draftwalk import _native
from draftwalk.ops import HeadNorm, Linear, RopeTable
from draftwalk.ops.memory import KVPages, KVType
from draftwalk.ops.native.matrix import any_float, any_quantised, native
from draftwalk.ops.native.pages import NativePool
from draftwalk.ops.native.passes import Passes
from draftwalk.ops.native.record import Recorder
from draftwalk.ops.native.tape import AtOnce, Tape
from draftwalk.rows import Rows


class Runner:
    """Runs passes and single operations.

    Args:
        threads: that compute, the calling one included.
        instruction_set: one of `_native.instruction_sets()`; `None` for the best of them.
        kv: how K/V are stored.
    """

    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(
        self, threads: int = 1, instruction_set: str | None = None, kv: KVType = "f16"
    ) -> None:
        self.kv = kv
        best = _native.instruction_sets()[0]
        self._runtime = _native.Runtime(threads, instruction_set or best)
        self._passes = Passes(self._runtime)
        self._at_once = AtOnce(self._runtime)
        self._tape: Tape = self._at_once
        self._lock = RLock()

    @property
    def threads(self) -> int:
        """How many compute."""
        return self._runtime.threads

    @property
    def instruction_set(self) -> str:
        """What the kernels were compiled for."""
        return self._runtime.instruction_set

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps torch to one thread: two pools of threads would fight for the cores."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def now(self) -> float:
        """Wall time; nothing is ever left to be finished."""
        return time.perf_counter()

    def run(
        self,
        key: tuple[Hashable, ...],
        rows: Rows,
        inputs: tuple[Tensor, ...],
        body: Callable[[Rows, tuple[Tensor, ...]], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """Replays the recorded pass."""
        with self._lock:
            recording = self._passes.find(key, rows, inputs, body, self._recording)
            recording.fill(rows, inputs)
            recording.program.replay()
            return recording.results

    def times(
        self,
        key: tuple[Hashable, ...],
        rows: Rows,
        inputs: tuple[Tensor, ...],
        body: Callable[[Rows, tuple[Tensor, ...]], tuple[Tensor, ...]],
    ) -> list[tuple[str, float]]:
        """Runs a pass as `run` does, and returns the name and the seconds of each of its calls."""
        with self._lock:
            recording = self._passes.find(key, rows, inputs, body, self._recording)
            recording.fill(rows, inputs)
            return recording.program.replay_timed()

    @contextmanager
    def _recording(self, recorder: Recorder) -> Iterator[None]:
        """Operations go to the recorder instead of running."""
        self._tape = recorder
        try:
            yield
        finally:
            self._tape = self._at_once

    def _only_at_once(self) -> None:
        assert self._tape is self._at_once, "K/V outside of pages cannot be recorded"

    def _done(self, out: Tensor) -> Tensor:
        self._tape.end()
        return out

    def _rotation(self, norm: HeadNorm | None, rope: RopeTable) -> tuple[int, float, int, int]:
        floats = self._tape.floats
        weight, eps = (0, 0.0) if norm is None else (floats(norm.weight), norm.eps)
        return weight, eps, floats(rope.cos), floats(rope.sin)

    def _pool(self, kv: KVPages) -> NativePool:
        assert isinstance(kv.pool, NativePool), "a pool of another back end"
        self._tape.keep(kv.pool)
        return kv.pool

    def _both(self, x: Tensor, linears: tuple[Linear, ...]) -> tuple[int, int]:
        """Addresses of x in fp32 and in int8, as far as these matrices take them."""
        tape = self._tape
        for one in linears:
            tape.keep(native(one.matrix).packed)
        floats = tape.floats(x) if any_float(linears) else 0
        return floats, tape.companion(x) if any_quantised(linears) else 0

    def _products(
        self,
        x: Tensor,
        linears: tuple[Linear, ...],
        residual: Tensor | None = None,
        multiplier: float = 1.0,
        softcap: float = 0.0,
    ) -> tuple[Tensor, ...]:
        tape, rows = self._tape, len(x)
        outputs = tuple(tape.new((rows, one.matrix.shape[0])) for one in linears)
        floats, companion = self._both(x, linears)
        parts = [
            (
                native(one.matrix).packed,
                tape.floats(one.bias),
                tape.floats(residual),
                out.data_ptr(),
                multiplier,
                softcap,
            )
            for one, out in zip(linears, outputs, strict=True)
        ]
        _native.linears(tape.program, parts, floats, companion, rows)
        tape.end()
        return outputs
