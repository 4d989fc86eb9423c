"""Where an operation's calls go: to a program that is run at once, or to one being recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from draftwalk import _native
from draftwalk.ops.memory import PageTables
from draftwalk.rows import Rows, Table

GROUP = 32  # values that share a scale in an int8 companion


class Tape(Protocol):
    """A program that operations append to, and the memory of their values."""

    @property
    def program(self) -> _native.Program:
        """The calls so far."""

    def new(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """Memory for an output."""

    def made(self, x: Tensor, call: int) -> Tensor:
        """Notes that `call`, which makes x, can write x's int8 companion as well; returns x."""

    def floats(self, x: Tensor | None) -> int:
        """The address of an input; 0 for none."""

    def whole(self, x: Tensor) -> int:
        """The address of an input of integers."""

    def companion(self, x: Tensor) -> int:
        """The address of x in int8, as products with quantised matrices take it."""

    def rows(self, rows: Rows) -> int:
        """The address of a row table."""

    def page_table(self, tables: PageTables) -> int:
        """The address of page tables."""

    def keep(self, owner: object) -> None:
        """Keeps the owner of some memory for as long as the program is used."""

    def end(self) -> None:
        """The operation is complete."""


class AtOnce:
    """Runs every operation when it is complete; its values are tensors like all others."""

    def __init__(self, runtime: _native.Runtime) -> None:
        self.program = _native.Program(runtime)
        self._kept: list[object] = []

    def new(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """A new tensor."""
        made = torch.empty(shape, dtype=dtype)
        self._kept.append(made)
        return made

    def made(self, x: Tensor, call: int) -> Tensor:
        """Nobody will ask for its companion before it is there."""
        return x

    def floats(self, x: Tensor | None) -> int:
        """The address of the values, copied if they lie elsewhere or otherwise."""
        return 0 if x is None else self._address(x, torch.float32)

    def whole(self, x: Tensor) -> int:
        """The address of the numbers."""
        return self._address(x, torch.int64)

    def companion(self, x: Tensor) -> int:
        """Quantises x first."""
        rows, width = x.shape
        made = torch.empty(_native.quantised_bytes(rows, width), dtype=torch.uint8)
        self._kept.append(made)
        _native.quantise(self.program, self.floats(x), rows, width, made.data_ptr())
        return made.data_ptr()

    def rows(self, rows: Rows) -> int:
        """A row table for one operation."""
        table = RowTable(rows)
        table.fill(rows)
        table.embed(self.floats(rows.embeddings))
        self._kept.append(table)
        return table.address

    def page_table(self, tables: PageTables) -> int:
        """Page tables as they are now."""
        found = ShownTables(tables)
        self._kept.append(found)
        return found.address

    def keep(self, owner: object) -> None:
        """Until the operation is complete."""
        self._kept.append(owner)

    def end(self) -> None:
        """Runs it; with it runs again, to no effect, what an operation that failed left behind."""
        try:
            self.program.replay()
        finally:
            self.program.clear()
            self._kept.clear()

    def _address(self, x: Tensor, dtype: torch.dtype) -> int:
        x = x.detach().to("cpu", dtype).contiguous()
        self._kept.append(x)
        return x.data_ptr()


class RowTable:
    """The numbers of a pass where kernels read them; rows give the shape, and are filled in later.

    Args:
        rows: of any pass with this shape.
    """

    def __init__(self, rows: Rows) -> None:
        T, P, W = rows.shape
        self._table = _native.Rows(T, W, P, len(rows.spans))
        self.address = self._table.address

    def fill(self, rows: Rows) -> None:
        """Copies a pass's numbers."""
        self._table.fill(rows.table.numbers)

    def embed(self, embeddings: int) -> None:
        """Says where the pass's own embeddings are, 0 for nowhere."""
        self._table.set_embeddings(embeddings)

    def like(self, rows: Rows, embeddings: Tensor | None) -> Rows:
        """Rows whose tensors view the table, in place of the pass's own."""
        numbers = Table.viewing(self._table.numbers(self._table))
        return replace(rows, table=numbers, embeddings=embeddings)


class ShownTables:
    """Page tables where kernels find them.

    Args:
        tables: what is shown; they move when they grow.
    """

    def __init__(self, tables: PageTables) -> None:
        self._tables = tables
        self._seen: Tensor | None = None
        self._native = _native.PageTable()
        self.address = self._native.address
        self.look()

    def look(self) -> None:
        """Finds out where the tables are now."""
        values = self._tables.values
        if values is not self._seen:
            slots, pages = values.shape
            assert values.dtype == torch.int32, "page numbers are int32"
            self._native.set(values.data_ptr(), slots, pages)
            self._seen = values
