"""Recording a pass: the body runs once, its operations become calls, values get fixed places.

Nothing is computed while a pass is recorded. A value's memory is free again when its tensor is
gone, so later operations of the same pass reuse it; all recordings share the memory of values that
die with their pass. What a pass returns lies in memory of its key, where the next pass with that
key will overwrite it.

Which of a body's values are returned is known only at its end, but is the same for every shape. So
the first recording of a key runs the body twice.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from draftwalk import _native
from draftwalk.ops.memory import PageTables
from draftwalk.ops.native.space import Space
from draftwalk.ops.native.tape import GROUP, RowTable, ShownTables
from draftwalk.rows import Rows

Body = Callable[[Rows, tuple[Tensor, ...]], tuple[Tensor, ...]]


@dataclass(slots=True)
class _Value:
    """A tensor of the recording: its number, its memory, and its companion's.

    Attributes:
        number: values are counted in the order they are made.
        gone: watches the tensor.
        places: what to release when it is gone.
        companion: address, 0 where there is none yet.
        call: the call that can write the companion too, if there is one.
        fused: whether it was told to.
        read: whether anything reads the values themselves.
    """

    number: int
    gone: weakref.ref[Tensor]
    places: list[int]
    companion: int = 0
    call: int | None = None
    fused: bool = False
    read: bool = False


@dataclass(slots=True)
class Recording:
    """A pass of one shape, ready to be replayed.

    Attributes:
        program: its calls.
        table: where they read the row table.
        inputs: where they read what comes from outside, embeddings last.
        tables: page tables that must be looked up anew, since they move.
        results: what the body returned.
        kept: owners of memory that the calls read.
    """

    program: _native.Program
    table: RowTable
    inputs: tuple[Tensor, ...]
    tables: list[ShownTables] = field(default_factory=list)
    results: tuple[Tensor, ...] = ()
    kept: dict[int, object] = field(default_factory=dict)

    def fill(self, rows: Rows, inputs: Sequence[Tensor]) -> None:
        """Copies everything that differs from pass to pass to where the calls read it."""
        self.table.fill(rows)
        own = () if rows.embeddings is None else (rows.embeddings,)
        for to, given in zip(self.inputs, (*inputs, *own), strict=True):
            if not (given.is_cpu and given.dtype == torch.float32 and given.is_contiguous()):
                given = given.detach().to("cpu", torch.float32).contiguous()
            _native.copy(to.data_ptr(), given.data_ptr(), given.nbytes)
        for tables in self.tables:
            tables.look()


class Recorder:
    """A tape that only writes down.

    Args:
        runtime: of the back end.
        scratch: memory of values that die with the pass.
        results: memory of what is returned.
        returned: numbers of the values that go there.
    """

    def __init__(
        self, runtime: _native.Runtime, scratch: Space, results: Space, returned: frozenset[int]
    ) -> None:
        self.program = _native.Program(runtime)
        self._scratch = scratch
        self._results = results
        self._returned = returned
        self._values: dict[int, _Value] = {}
        self._count = 0
        self._tables: dict[int, ShownTables] = {}
        self._kept: dict[int, object] = {}
        self._rows: Rows | None = None
        self._row_table: RowTable | None = None

    def record(self, rows: Rows, inputs: Sequence[Tensor], body: Body) -> Recording:
        """Runs the body; rows and inputs only give their shapes."""
        table = RowTable(rows)
        places = tuple(self.new(tuple(one.shape)) for one in inputs)
        embeddings = None if rows.embeddings is None else self.new(tuple(rows.embeddings.shape))
        table.embed(0 if embeddings is None else embeddings.data_ptr())
        self._row_table, self._rows = table, table.like(rows, embeddings)
        results = body(self._rows, places)
        for one in results:
            if id(one) in self._values:
                self._values[id(one)].read = True
        for value in [*self._values.values()]:
            self._settle(value)
        every = places if embeddings is None else (*places, embeddings)
        return Recording(self.program, table, every, [*self._tables.values()], results, self._kept)

    def numbers(self, results: Sequence[Tensor]) -> frozenset[int]:
        """Which values these are; weights and the like, which stay anyway, are none."""
        found = (self._values.get(id(one)) for one in results)
        return frozenset(value.number for value in found if value is not None)

    def close(self) -> None:
        """Releases what is still held: the recording is complete, or has failed."""
        for value in self._values.values():
            self._release(value)
        self._values.clear()

    def new(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """Memory until the tensor is gone, or for good if it is returned."""
        returned = self._count in self._returned
        x, address = (self._results if returned else self._scratch).tensor(shape, dtype)
        key = id(x)
        values = self._values

        def gone(_: weakref.ref[Tensor]) -> None:
            value = values.pop(key, None)
            if value is not None:
                self._settle(value)
                self._release(value)

        places = [] if returned else [address]
        self._values[key] = _Value(self._count, weakref.ref(x, gone), places)
        self._count += 1
        return x

    def made(self, x: Tensor, call: int) -> Tensor:
        """Takes memory for the companion now: until it is known to be unused, it must be free."""
        if x.shape[-1] % GROUP == 0:
            value = self._values[id(x)]
            value.companion = self._place_companion(value, x)
            value.call = call
        return x

    def floats(self, x: Tensor | None) -> int:
        """The address of a value, of an input, or of a weight, which is then kept."""
        if x is None:
            return 0
        assert x.dtype == torch.float32, "values are fp32"
        return self._address(x)

    def whole(self, x: Tensor) -> int:
        """The same of integers."""
        assert x.dtype == torch.int64, "numbers are int64"
        return self._address(x)

    def companion(self, x: Tensor) -> int:
        """Asks the call that makes x for it, or appends one that quantises."""
        value = self._values.get(id(x))
        assert value is not None, "weights are not quantised in a pass"
        rows, width = x.shape
        if value.call is not None:
            if not value.fused:
                self.program.quantise(value.call, value.companion, rows, width)
                value.fused = True
        elif value.companion == 0:
            value.companion = self._place_companion(value, x)
            value.read = True
            _native.quantise(self.program, x.data_ptr(), rows, width, value.companion)
        return value.companion

    def rows(self, rows: Rows) -> int:
        """The recording's table; a body has no other."""
        assert rows is self._rows, "rows of another pass"
        assert self._row_table is not None
        return self._row_table.address

    def page_table(self, tables: PageTables) -> int:
        """Page tables that will be looked up at every replay."""
        return self._tables.setdefault(id(tables), ShownTables(tables)).address

    def keep(self, owner: object) -> None:
        """As long as the recording."""
        self._kept[id(owner)] = owner

    def end(self) -> None:
        """Nothing runs."""

    def _address(self, x: Tensor) -> int:
        assert x.is_contiguous(), "values lie in rows"
        value = self._values.get(id(x))
        if value is None:
            self._kept[id(x)] = x
        else:
            value.read = True
        return x.data_ptr()

    def _place_companion(self, value: _Value, x: Tensor) -> int:
        rows, width = x.shape
        place = self._scratch.take(_native.quantised_bytes(rows, width))
        value.places.append(place)
        return place

    def _settle(self, value: _Value) -> None:
        """Spares a value that nobody will read any more, where its companion was all that was."""
        if value.fused and not value.read and value.call is not None:
            self.program.only_quantise(value.call)

    def _release(self, value: _Value) -> None:
        for place in value.places:
            self._scratch.release(place)
        value.places.clear()
