"""Kernels called one by one, with arrays whose numbers come from a generator of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

native = pytest.importorskip("draftwalk._native")

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]


def words(seed: int, count: int) -> NDArray[np.uint64]:
    """Splitmix64, so that recorded hashes depend on no library's generator."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) * np.uint64(0x632BE59BD9B4E019) + np.arange(
            1, count + 1, dtype=np.uint64
        ) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(seed: int, *shape: int, size: float = 1.0) -> Floats:
    """Multiples of 2^-23 in [-1, 1), times `size`."""
    drawn = words(seed, int(np.prod(shape))) >> np.uint64(40)
    values = drawn.astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    return (values * np.float32(size)).reshape(shape)


def below(seed: int, limit: int, *shape: int) -> Whole:
    """Whole numbers from 0 to `limit` - 1."""
    return (words(seed, int(np.prod(shape))) % np.uint64(limit)).astype(np.int64).reshape(shape)


def address(array: NDArray[Any] | None) -> int:
    if array is None:
        return 0
    assert array.flags["C_CONTIGUOUS"]
    return int(array.ctypes.data)


def same_bits(a: Floats, b: Floats) -> bool:
    """Equal bit for bit; a NaN is like any other."""
    assert a.shape == b.shape
    whole = np.uint32 if a.dtype == np.float32 else a.dtype
    return bool(((a.view(whole) == b.view(whole)) | ((a != a) & (b != b))).all())


@dataclass(frozen=True)
class Quantised:
    """The int8 companion of rows: bytes as they lie there, and their parts."""

    memory: NDArray[np.uint8]
    rows: int
    width: int

    @staticmethod
    def of(rows: int, width: int) -> Quantised:
        return Quantised(np.zeros(native.quantised_bytes(rows, width), np.uint8), rows, width)

    @property
    def values(self) -> NDArray[np.int8]:
        """[rows, width]."""
        groups = self.width // 32
        raw = self.memory[: groups * self.rows * 32].view(np.int8)
        return raw.reshape(groups, self.rows, 32).transpose(1, 0, 2).reshape(self.rows, -1)

    @property
    def scales(self) -> Floats:
        """[rows, groups]."""
        groups = self.width // 32
        start = (groups * self.rows * 32 + 63) // 64 * 64
        raw = self.memory[start : start + groups * self.rows * 4].view(np.float32)
        return raw.reshape(groups, self.rows).T


@cache
def runtime(threads: int, instruction_set: str) -> Any:
    return native.Runtime(threads, instruction_set)


@dataclass(frozen=True)
class Kernels:
    """One instruction set on some threads."""

    instruction_set: str
    threads: int = 1

    def call(self, append: Callable[[Any], object]) -> None:
        """Runs what `append` puts into a program."""
        program = native.Program(runtime(self.threads, self.instruction_set))
        append(program)
        program.replay()
        program.clear()


def instruction_sets() -> list[str]:
    return list(native.instruction_sets())


EVERY = pytest.mark.parametrize("name", instruction_sets())


@dataclass(frozen=True)
class Part:
    """Rows of one sequence in a pass."""

    sequence: int
    context: int
    size: int


@dataclass
class Table:
    """The row table of a pass, as kernels see it."""

    parts: Sequence[Part]
    tokens: Whole | None = None
    parents: Whole | None = None
    native: Any = field(init=False)
    places: Whole = field(init=False)
    before: Whole = field(init=False)

    def __post_init__(self) -> None:
        self.native = native.Rows(self.size, 0, 1, len(self.parts))
        self._fill()

    def move(self, *parts: Part) -> None:
        """Other places of as many rows."""
        self.parts = parts
        self._fill()

    def _fill(self) -> None:
        rows = list(self.rows())
        tokens = [0] * self.size if self.tokens is None else self.tokens
        sequences = [part.sequence for part, _, _ in rows]
        self.places = np.array([part.context + index for part, index, _ in rows], np.int64)
        alone = [row - 1 if index else -1 for _, index, row in rows]
        self.before = np.array(alone, np.int64) if self.parents is None else self.parents
        spans: list[int] = []
        for part in self.parts:
            start = spans[-2] if spans else 0
            spans += [part.sequence, start, start + part.size, part.context]
        columns = (tokens, sequences, self.places, self.before, self.places, spans)
        numbers = np.concatenate([np.array(one, np.int64) for one in columns])
        self.native.fill(address(numbers))

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def address(self) -> int:
        return int(self.native.address)

    def rows(self) -> Iterator[tuple[Part, int, int]]:
        """Each row's part, its index in it, and its row in the pass."""
        row = 0
        for part in self.parts:
            for index in range(part.size):
                yield part, index, row
                row += 1
