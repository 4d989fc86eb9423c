"""K/V of one kind of attention layers, in pages of 64 places through one table per sequence.

All layers of a kind (full attention, or one window size) share the table: page `n` of a sequence
holds places 64n to 64n + 63 in every layer. Sliding layers give pages back at commit, as soon as no
row that may still come can see them. Forked sequences share pages until one of them writes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from draftwalk.errors import RollbackError
from draftwalk.ops.memory import PAGE, KVPages, PagePool, PageTables
from draftwalk.rows import Rows
from draftwalk.state import check_kept

FREED = -1  # table entry of a page that a window has left behind


class PagedKV:
    """K/V of several layers with the same window.

    Args:
        pool: the layers' pages.
        window: how many places a row sees, itself included; `None` for all.
        device: where operations look for page tables.
    """

    def __init__(self, pool: PagePool, window: int | None, device: torch.device) -> None:
        self.window = window
        self._pool = pool
        self._shown = PageTables(torch.full((0, 0), FREED, dtype=torch.int32, device=device))
        self._free: list[int] = []
        self._users: list[int] = []  # sequences that hold each page
        self._tables: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._pass: dict[int, int] = {}  # rows of the open pass
        self._listed: dict[int, list[int]] = {}  # tables as they were shown last

    def layer(self, index: int) -> KVPages:
        """One layer as operations see it."""
        return KVPages(self._pool, index, self._shown)

    def open(self, sequence: int) -> None:
        """Starts an empty sequence."""
        assert sequence not in self._tables, f"slot {sequence} is in use"
        self._tables[sequence] = []
        self._lengths[sequence] = 0

    def close(self, sequence: int) -> None:
        """Gives the sequence's pages back."""
        self._release(sequence, 0)
        del self._tables[sequence], self._lengths[sequence]

    def length(self, sequence: int) -> int:
        """Committed places."""
        return self._lengths[sequence]

    def begin(self, rows: Rows) -> None:
        """Gives every span the pages its rows will be written to, none of them shared."""
        assert not self._pass, "the last pass was not committed"
        for span in rows.spans:
            length = self._lengths[span.sequence]
            assert span.context == length, f"rows continue {span.context}, committed are {length}"
        for span in rows.spans:
            table = self._tables[span.sequence]
            for page in range(span.context // PAGE, len(table)):
                self._own(table, page)
            while len(table) * PAGE < span.context + span.size:
                table.append(self._take())
            self._show(span.sequence, table)
        self._pass = {span.sequence: span.size for span in rows.spans}

    def commit(self, kept: Mapping[int, int]) -> None:
        """Keeps the first rows of each sequence; frees unused pages and those behind the window."""
        assert kept.keys() == self._pass.keys(), "commit names the sequences of the pass"
        check_kept(kept, self._pass)
        for sequence, rows in kept.items():
            self._settle(sequence, self._lengths[sequence] + rows)
        self._pass.clear()

    def abandon(self) -> None:
        """Ends a pass without keeping more of it; frees the pages that were for its rows."""
        for sequence in self._pass:
            self._settle(sequence, self._lengths[sequence])
        self._pass.clear()

    def reachable(self, sequence: int, length: int) -> int:
        """`length` while the window before it is still held, else 0."""
        length = min(length, self._lengths[sequence])
        first = self._first_visible(length) // PAGE
        held = all(page != FREED for page in self._tables[sequence][first : -(-length // PAGE)])
        return length if held else 0

    def truncate(self, sequence: int, length: int) -> int:
        """Goes back to the nearest reachable length."""
        assert sequence not in self._pass, "no truncation inside a pass"
        length = self.reachable(sequence, length)
        self._settle(sequence, length)
        return length

    def fork(self, source: int, into: int) -> None:
        """Shares the pages of `source` with a new sequence."""
        self.open(into)
        for page in self._tables[source]:
            if page != FREED:
                self._users[page] += 1
        self._tables[into] = list(self._tables[source])
        self._lengths[into] = self._lengths[source]

    def save(self, sequence: int) -> dict[str, Tensor]:
        """The pages held, in order, with the number of freed ones before them."""
        table = self._tables[sequence]
        held = [page for page in table if page != FREED]
        return {
            "length": torch.tensor(self._lengths[sequence]),
            "freed": torch.tensor(len(table) - len(held)),
            **self._pool.read(held),
        }

    def load(self, sequence: int, saved: Mapping[str, Tensor]) -> None:
        """Opens the sequence with saved pages."""
        length, freed = int(saved["length"]), int(saved["freed"])
        if freed > self._first_visible(length) // PAGE:
            raise RollbackError(f"saved K/V of another window than {self.window} does not fit")
        held = [self._take() for _ in range(-(-length // PAGE) - freed)]
        try:
            self._pool.write(held, saved)
        except BaseException:
            for page in held:
                self._drop(page)
            raise
        self.open(sequence)
        self._tables[sequence] = [FREED] * freed + held
        self._settle(sequence, length)

    @property
    def bytes(self) -> int:
        """Memory of all pages, used or free."""
        return self._pool.bytes

    @property
    def pages_in_use(self) -> int:
        """Pages that at least one sequence holds."""
        return self._pool.pages - len(self._free)

    def _first_visible(self, length: int) -> int:
        """First place that the row at place `length` sees."""
        return 0 if self.window is None else max(0, length - self.window + 1)

    def _settle(self, sequence: int, length: int) -> None:
        self._lengths[sequence] = length
        self._release(sequence, -(-length // PAGE))
        table = self._tables[sequence]
        for n in range(min(self._first_visible(length) // PAGE, len(table))):
            page = table[n]
            table[n] = FREED  # before it is dropped: an interrupt must not make that happen twice
            self._drop(page)

    def _release(self, sequence: int, pages: int) -> None:
        table = self._tables[sequence]
        while len(table) > pages:
            self._drop(table.pop())

    def _drop(self, page: int) -> None:
        if page != FREED:
            self._users[page] -= 1
            if self._users[page] == 0:
                self._free.append(page)

    def _own(self, table: list[int], n: int) -> None:
        """Replaces a shared page by a copy, since the pass will write to it."""
        shared = table[n]
        if self._users[shared] > 1:
            own = self._take()
            self._pool.copy(shared, own)
            table[n] = own
            self._drop(shared)

    def _take(self) -> int:
        if not self._free:
            self._grow()
        page = self._free.pop()
        self._users[page] = 1
        return page

    def _grow(self) -> None:
        """Doubles the pool; pages keep their numbers."""
        before = self._pool.pages
        more = max(8, before)
        self._pool.grow(before + more)
        self._users += [0] * more
        self._free += range(before + more - 1, before - 1, -1)

    def _show(self, sequence: int, table: list[int]) -> None:
        """Writes a sequence's table where operations read it, if it has changed."""
        if self._listed.get(sequence) == table:
            return
        self._listed[sequence] = list(table)
        shown = self._shown.values
        slots, pages = shown.shape
        if sequence >= slots or len(table) > pages:
            size = max(slots, sequence + 1), max(pages, 2 * len(table))
            self._shown.values = shown.new_full(size, FREED)
            self._shown.values[:slots, :pages] = shown
        row = torch.tensor(table, dtype=torch.int32, device=shown.device)
        self._shown.values[sequence, : len(table)] = row
