"""The recordings of a back end: found by what a pass is of and by its shape, the oldest dropped."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import AbstractContextManager
from typing import Protocol

from torch import Tensor

from draftwalk import _native
from draftwalk.ops.native.record import Body, Recorder, Recording
from draftwalk.ops.native.space import Space
from draftwalk.rows import Rows

_SCRATCH = 1 << 37  # bytes of address space, not of memory
_RESULTS = 1 << 35
MOST = 256  # recordings; each takes some hundred bytes for every call

Key = tuple[Hashable, ...]
Shape = tuple[object, ...]


class OnTape(Protocol):
    """Makes operations append to a recorder while the context is open."""

    def __call__(self, recorder: Recorder) -> AbstractContextManager[None]:
        """Opens it."""


class _Family:
    """What recordings with one key share: memory of results, and which values these are."""

    def __init__(self) -> None:
        self.space = Space(_RESULTS)
        self.returned: frozenset[int] | None = None
        self.shapes: set[Shape] = set()


class Passes:
    """All recordings.

    Args:
        runtime: of the back end.
        most: how many are kept.
    """

    def __init__(self, runtime: _native.Runtime, most: int = MOST) -> None:
        self._runtime = runtime
        self._most = most
        self._scratch = Space(_SCRATCH)
        self._families: dict[Key, _Family] = {}
        self._recordings: OrderedDict[tuple[Key, Shape], Recording] = OrderedDict()

    def __len__(self) -> int:
        return len(self._recordings)

    def find(
        self, key: Key, rows: Rows, inputs: tuple[Tensor, ...], body: Body, on_tape: OnTape
    ) -> Recording:
        """The recording for a pass, made now if there is none."""
        key = tuple(_weak(part) for part in key)
        shape = _shape(rows, inputs)
        found = self._recordings.get((key, shape))
        if found is not None:
            self._recordings.move_to_end((key, shape))
            return found
        self._drop_dead()
        while len(self._recordings) >= self._most:
            self._drop(next(iter(self._recordings)))
        family = self._families.get(key) or _Family()  # kept once it has a recording
        made = self._record(family, rows, inputs, body, on_tape)
        self._families[key] = family
        family.shapes.add(shape)
        self._recordings[key, shape] = made
        return made

    def _record(
        self,
        family: _Family,
        rows: Rows,
        inputs: tuple[Tensor, ...],
        body: Body,
        on_tape: OnTape,
    ) -> Recording:
        """Records; once more where values to return were not known to be returned."""
        for _ in range(3):
            returned = family.returned or frozenset()
            family.space.reset()
            recorder = Recorder(self._runtime, self._scratch, family.space, returned)
            try:
                with on_tape(recorder):
                    made = recorder.record(rows, inputs, body)
                family.returned = recorder.numbers(made.results)
            finally:
                recorder.close()
            if family.returned == returned:
                return made
            del made
        raise AssertionError("a body returns something else whenever it runs")

    def _drop_dead(self) -> None:
        """Drops what was recorded of models and states that are gone."""
        for key in [key for key in self._families if not all(map(_alive, key))]:
            for shape in list(self._families[key].shapes):
                self._drop((key, shape))

    def _drop(self, one: tuple[Key, Shape]) -> None:
        key, shape = one
        del self._recordings[one]
        family = self._families[key]
        family.shapes.discard(shape)
        if not family.shapes:
            del self._families[key]


def _shape(rows: Rows, inputs: tuple[Tensor, ...]) -> Shape:
    """All of a pass that its recording depends on."""
    embeddings = None if rows.embeddings is None else rows.embeddings.shape
    return (rows.shape, len(rows.spans), embeddings, *(one.shape for one in inputs))


def _weak(part: Hashable) -> Hashable:
    """A key does not keep models and states alive."""
    return part if isinstance(part, str | int | tuple) else weakref.ref(part)


def _alive(part: Hashable) -> bool:
    return not isinstance(part, weakref.ref) or part() is not None
