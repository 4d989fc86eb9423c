"""Norms, rotation and K/V writes against plain arithmetic, and bit for bit against plain C++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.golden import check_golden
from support.kernels import (
    EVERY,
    Floats,
    Kernels,
    Part,
    Quantised,
    Table,
    address,
    below,
    native,
    same_bits,
    uniform,
)
from support.kv import PAGE, Heads, Store

WIDTHS = [1, 15, 16, 17, 48, 96, 576]


def lanes(x: Floats) -> np.float32:
    """The sum of a row as every reduction of the kernels is defined: 16 lanes, then a tree."""
    padded = np.concatenate([x, np.zeros(-len(x) % 16, np.float32)]).reshape(-1, 16)
    total = np.zeros(16, np.float32)
    for part in padded:
        total = total + part
    while len(total) > 1:
        half = len(total) // 2
        total = total[:half] + total[half:]
    return np.float32(total[0])


def normed(x: Floats, weight: Floats, eps: float, residual: Floats | None = None) -> Floats:
    wide = x.astype(np.float64)
    factor = 1 / np.sqrt((wide * wide).mean(-1, keepdims=True) + eps)
    out = wide * factor * weight
    return np.asarray(out if residual is None else out + residual, np.float32)


def norm(
    name: str, x: Floats, weight: Floats, residual: Floats | None = None, threads: int = 1
) -> Floats:
    out = np.full_like(x, 7.0)
    Kernels(name, threads).call(
        lambda p: native.norm(
            p, address(x), address(weight), address(residual), address(out), *x.shape, 1e-5
        )
    )
    return out


@EVERY
@pytest.mark.parametrize("width", WIDTHS)
def test_norm(name: str, width: int) -> None:
    """Equals plain arithmetic; rows alone, on threads and in plain C++ have the same bits."""
    x, weight, residual = (uniform(seed, 9, width, size=3.0) for seed in range(3))
    for added in (None, residual):
        got = norm(name, x, weight[0], added, threads=2)
        np.testing.assert_allclose(got, normed(x, weight[0], 1e-5, added), rtol=2e-6, atol=2e-6)
        assert same_bits(got, norm("scalar", x, weight[0], added))
        rows = [
            norm(name, x[i : i + 1], weight[0], None if added is None else added[i : i + 1])
            for i in range(9)
        ]
        assert same_bits(got, np.concatenate(rows))


@EVERY
def test_norm_sums_on_lanes(name: str) -> None:
    """Squares that are exact, so that only the order of the sum is left."""
    for width in WIDTHS:
        x = (below(width, 4095, 1, width) - 2047).astype(np.float32)
        ones = np.ones(width, np.float32)
        mean = lanes(x[0] * x[0]) / np.float32(width) + np.float32(1e-5)
        factor = np.float32(1) / np.sqrt(mean, dtype=np.float32)
        assert same_bits(norm(name, x, ones), x * factor)


@EVERY
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_norm_keeps_a_bad_row_to_itself(name: str, bad: float) -> None:
    x, weight = uniform(1, 3, 96), uniform(2, 96)
    expected = norm(name, x, weight)
    x[1, 40] = bad
    got = norm(name, x, weight)
    assert same_bits(got[::2].copy(), expected[::2].copy())
    assert np.isnan(got[1, 40])


def companion(x: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Values and scales of rows as int8, group by group."""
    groups = x.reshape(len(x), -1, 32)
    largest = np.abs(groups).max(-1)
    spoiled = ~np.isfinite(groups).all(-1)
    usable = (largest >= 2.0**-100) & ~spoiled
    inverse = np.float32(127) / np.where(usable, largest, 1).astype(np.float32)
    numbers = np.rint(np.where(usable[..., None], groups, 0) * inverse[..., None])
    scales = np.where(usable, largest / np.float32(127), 0).astype(np.float32)
    scales[spoiled] = np.nan
    return numbers.reshape(x.shape).astype(np.int8), scales


@EVERY
@pytest.mark.parametrize("alone", [True, False])
def test_quantised_norm(name: str, alone: bool) -> None:
    """The companion is that of the output, written beside it or alone."""
    x, weight = uniform(1, 5, 96, size=9.0), uniform(2, 96)
    weight[:32] = 0.0
    x[3, 70] = np.nan
    out = norm(name, x, weight)
    into, written = Quantised.of(5, 96), np.zeros_like(x)

    def append(p: Any) -> None:
        target = None if alone else written
        call = native.norm(p, address(x), address(weight), 0, address(target), 5, 96, 1e-5)
        p.quantise(call, address(into.memory), 5, 96)

    Kernels(name).call(append)
    values, scales = companion(out)
    assert alone or same_bits(written, out)
    assert (into.values == values).all()
    assert same_bits(np.ascontiguousarray(into.scales), scales)


@EVERY
def test_gather_and_join(name: str) -> None:
    x, index = uniform(1, 7, 19), below(2, 7, 30)
    picked = np.zeros((30, 19), np.float32)
    kernels = Kernels(name, 2)
    kernels.call(lambda p: native.gather(p, address(x), address(index), address(picked), 30, 19))
    assert same_bits(picked, x[index])
    parts = [uniform(seed, 30, width) for seed, width in enumerate((5, 64, 1, 19))]
    joined = np.zeros((30, 89), np.float32)
    kernels.call(
        lambda p: native.join(p, [*map(address, parts)], [5, 64, 1, 19], 30, address(joined))
    )
    assert same_bits(joined, np.concatenate(parts, 1))
    with pytest.raises(ValueError, match="too many"):
        kernels.call(lambda p: native.join(p, [0] * 17, [1] * 17, 1, 0))


# ---- rotation ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rotation:
    """A rope table, and the weight of a norm per head or none."""

    size: int
    weight: Floats | None

    @property
    def angles(self) -> NDArray[np.float64]:
        return np.outer(np.arange(600), 10000.0 ** (-np.arange(self.size // 2) * 2 / self.size))

    @property
    def cos(self) -> Floats:
        return np.cos(self.angles).astype(np.float32)

    @property
    def sin(self) -> Floats:
        return np.sin(self.angles).astype(np.float32)

    def plain(self, x: Floats, places: NDArray[np.int64]) -> Floats:
        """[T, heads, D] rotated in float64."""
        wide = x if self.weight is None else normed(x, self.weight, 1e-5)
        low, high = np.split(wide.astype(np.float64), 2, axis=-1)
        cos, sin = (part[places][:, None] for part in (self.cos, self.sin))
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1).astype(
            np.float32
        )

    def rotate(self, kernels: Kernels, x: Floats, table: Table) -> Floats:
        """By the kernel."""
        out, cos, sin = np.full_like(x, 7.0), self.cos, self.sin
        kernels.call(
            lambda p: native.rotate(
                p, address(x), address(out), x.shape[1], self.size, address(self.weight), 1e-5,
                address(cos), address(sin), table.address,
            )
        )  # fmt: skip
        return out


ROTATIONS = [
    Rotation(size, uniform(9, size) if normed else None)
    for size in (6, 16, 64, 80, 256)
    for normed in (False, True)
]
PARTS = [Part(1, 0, 3), Part(0, 500, 9), Part(2, 62, 5)]


@EVERY
@pytest.mark.parametrize("rotation", ROTATIONS, ids=lambda r: f"{r.size}-{r.weight is not None}")
def test_rotate(name: str, rotation: Rotation) -> None:
    x, table = uniform(3, 17, 4, rotation.size), Table(PARTS)
    got = rotation.rotate(Kernels(name, 2), x, table)
    np.testing.assert_allclose(got, rotation.plain(x, table.places), rtol=0, atol=1e-5)
    assert same_bits(got, rotation.rotate(Kernels("scalar"), x, table))
    alone = rotation.rotate(Kernels(name), x[3:12].copy(), Table([PARTS[1]]))
    assert same_bits(got[3:12], alone)


def pages(store: Store) -> NDArray[np.uint8]:
    """Everything in the second layer, [pages, bytes]."""
    count = store.pool.count
    found = np.zeros(store.pool.bytes, np.uint8)
    store.pool.read(list(range(count)), address(found))
    return found.reshape(2, count, -1)[1]


@EVERY
@pytest.mark.parametrize("kind", ["f16", "q8"])
@pytest.mark.parametrize("with_norm", [True, False])
def test_remember(name: str, kind: str, with_norm: bool) -> None:
    """Keys stand channel by channel, values place by place, at the sequence's own pages only."""
    heads = Heads(2, 2, 64, kind)
    rotation = Rotation(64, uniform(9, 64) if with_norm else None)
    k, v = uniform(1, 17, 2, 64, size=4.0), uniform(2, 17, 2, 64, size=4.0)
    k[4, 1, 7], v[5, 0, 9] = np.inf, np.nan
    cos, sin, table = rotation.cos, rotation.sin, Table(PARTS)
    found = []
    for kernels in (Kernels("scalar"), Kernels(name, 2)):
        store = Store(heads, pages=9)
        kernels.call(
            lambda p, store=store: native.remember(
                p, address(k), address(v), address(rotation.weight), 1e-5, address(cos),
                address(sin), store.pool.address, 1, store.table.address, table.address,
            )
        )  # fmt: skip
        found.append(pages(store))
    assert (found[0] == found[1]).all()
    rotated = rotation.rotate(Kernels(name), k, table)
    expected = np.zeros_like(found[0])
    for part, index, row in table.rows():
        page, place = divmod(part.context + index, PAGE)
        whole = expected[store.numbers[part.sequence, page]]
        for head, bytes_of_head in enumerate(whole.reshape(2, -1)):
            half = len(bytes_of_head) // 2
            write(bytes_of_head[:half], rotated[row, head], place, kind, keys=True)
            write(bytes_of_head[half:], v[row, head], place, kind, keys=False)
    assert (expected == found[1]).all()


def write(into: NDArray[np.uint8], x: Floats, place: int, kind: str, keys: bool) -> None:
    """Keys or values of one head and place, as kernels.h lays them out."""
    with np.errstate(over="ignore"):
        halves = x.astype(np.float16)
    if kind == "f16":
        room = (
            into.view(np.float16).reshape(64, PAGE)
            if keys
            else into.view(np.float16).reshape(PAGE, 64)
        )
        (room.T if keys else room)[place] = halves
        return
    values, scales = companion(x[None])
    numbers = into[: 64 * PAGE].view(np.int8).reshape((64, PAGE) if keys else (PAGE, 64))
    (numbers.T if keys else numbers)[place] = values[0]
    room = into[64 * PAGE :].view(np.float32).reshape((2, PAGE) if keys else (PAGE, 2))
    (room.T if keys else room)[place] = scales[0]


@EVERY
def test_recorded_bits(name: str) -> None:
    x, weight, residual = uniform(1, 9, 576, size=3.0), uniform(2, 576), uniform(3, 9, 576)
    check_golden("norm", norm(name, x, weight, residual))
    heads, table = uniform(4, 17, 4, 80), Table(PARTS)
    out, weight, tables = np.zeros_like(heads), uniform(5, 80), uniform(6, 2, 600, 40)
    Kernels(name).call(
        lambda p: native.rotate(
            p, address(heads), address(out), 4, 80, address(weight), 1e-5, address(tables[0]),
            address(tables[1]), table.address,
        )
    )  # fmt: skip
    check_golden("rotate", out)
