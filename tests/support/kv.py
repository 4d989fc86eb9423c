"""K/V in native pages, written by the kernel that writes them in a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from support.kernels import Floats, Kernels, Part, Quantised, Table, address, native, uniform

PAGE = 64


@dataclass(frozen=True)
class Heads:
    """Sizes, and the type of K/V."""

    queries: int = 6
    keys: int = 2
    size: int = 64
    type: str = "f16"

    @property
    def room(self) -> int:
        """Values of a row's keys."""
        return self.keys * self.size


@dataclass(frozen=True)
class Sees:
    """How rows look at their sequence."""

    causal: bool = True
    window: int = 0
    softcap: float = 0.0
    sinks: Floats | None = None

    @property
    def scale(self) -> float:
        return 0.25


@dataclass
class Store:
    """Pages of two layers, the second in use, with tables that scatter the sequences' pages."""

    heads: Heads
    slots: int = 4
    pages: int = 8
    pool: Any = field(init=False)
    table: Any = field(init=False)

    def __post_init__(self) -> None:
        self.pool = native.Pages(self.heads.type, 2, self.heads.keys, self.heads.size)
        self.pool.grow(self.slots * self.pages)
        numbers = np.arange(self.slots * self.pages, dtype=np.int32) * 7 % (self.slots * self.pages)
        self.numbers = np.ascontiguousarray(numbers.reshape(self.pages, self.slots).T)
        assert len(set(numbers.tolist())) == numbers.size
        self.table = native.PageTable()
        self.table.set(address(self.numbers), *self.numbers.shape)
        self.straight = np.ones((4096, self.heads.size // 2), np.float32)  # cosines of no rotation
        self.flat = np.zeros_like(self.straight)

    def remember(self, kernels: Kernels, table: Table, k: Floats, v: Floats) -> None:
        """Writes rows' keys and values unrotated."""
        kernels.call(
            lambda p: native.remember(
                p, address(k), address(v), 0, 0.0, address(self.straight), address(self.flat),
                self.pool.address, 1, self.table.address, table.address,
            )
        )  # fmt: skip

    def attend(self, kernels: Kernels, table: Table, q: Floats, sees: Sees) -> Floats:
        """[T, N * D]."""
        out = np.full((table.size, q.shape[1]), 7.0, np.float32)
        kernels.call(lambda p: self.append(p, table, q, sees, out))
        return out

    def attend_quantised(
        self, kernels: Kernels, table: Table, q: Floats, sees: Sees, into: Quantised
    ) -> None:
        """Only the companion of what `attend` gives."""

        def append(p: Any) -> None:
            call = self.append(p, table, q, sees, None)
            p.quantise(call, address(into.memory), into.rows, into.width)

        kernels.call(append)

    def append(self, p: Any, table: Table, q: Floats, sees: Sees, out: Floats | None) -> int:
        return int(
            native.attend(
                p, address(q), address(out), self.heads.queries, self.pool.address, 1,
                self.table.address, table.address, sees.scale, sees.causal, sees.window,
                sees.softcap, address(sees.sinks),
            )
        )  # fmt: skip


@dataclass
class Sequences:
    """Random keys, values and queries of whole sequences, at every place."""

    heads: Heads
    length: int = 400
    seed: int = 0
    slots: int = 4

    def __post_init__(self) -> None:
        shape = (self.slots, self.length, self.heads.room)
        self.k = uniform(self.seed + 1, *shape)
        self.v = uniform(self.seed + 2, *shape)
        width = self.heads.queries * self.heads.size
        self.q = uniform(self.seed + 3, self.slots, self.length, width)

    def gather(self, values: Floats, parts: Sequence[Part]) -> Floats:
        """What stands at the parts' places, row after row."""
        picked = [values[p.sequence, p.context : p.context + p.size] for p in parts]
        return np.ascontiguousarray(np.concatenate(picked))

    def write(self, store: Store, kernels: Kernels, parts: Sequence[Part]) -> None:
        """Writes what a pass of these rows writes."""
        k, v = self.gather(self.k, parts), self.gather(self.v, parts)
        store.remember(kernels, Table(parts), k, v)

    def fill(self, store: Store, kernels: Kernels, lengths: Sequence[int]) -> None:
        """Writes whole contexts, in chunks of 50."""
        for sequence, length in enumerate(lengths):
            for start in range(0, length, 50):
                size = min(50, length - start)
                self.write(store, kernels, [Part(sequence, start, size)])

    def run(self, store: Store, kernels: Kernels, parts: Sequence[Part], sees: Sees) -> Floats:
        """Writes the rows' K/V and attends."""
        self.write(store, kernels, parts)
        return store.attend(kernels, Table(parts), self.gather(self.q, parts), sees)
