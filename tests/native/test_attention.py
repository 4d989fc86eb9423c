"""Attention against plain arithmetic, against plain C++ bit for bit, and in any company."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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
    instruction_sets,
    native,
    same_bits,
    uniform,
)
from support.kv import Heads, Sees, Sequences, Store

Doubles = NDArray[np.float64]
SIZES = [
    Heads(),
    Heads(9, 3, 64),
    Heads(4, 1, 256),
    Heads(4, 4, 80),
    Heads(4, 2, 6),
    Heads(40, 1, 16),
]
BYTES = [Heads(6, 2, 64, "q8"), Heads(3, 3, 96, "q8"), Heads(5, 1, 32, "q8")]
SIGHTS = [
    *(Sees(causal, window) for causal in (True, False) for window in (0, 1, 64, 65)),
    *(Sees(causal, 3, 0.5) for causal in (True, False)),
]
PARTS = [Part(0, 200, 9), Part(1, 0, 70), Part(2, 130, 1), Part(3, 64, 5)]
CONTEXTS = [part.context for part in sorted(PARTS, key=lambda part: part.sequence)]


def stored(x: Floats, heads: Heads) -> Doubles:
    """What is left of keys or values in pages."""
    if heads.type == "f16":
        return x.astype(np.float16).astype(np.float64)
    groups = x.reshape(*x.shape[:-1], -1, 32)
    largest = np.abs(groups).max(-1, keepdims=True)
    numbers = np.rint(groups * (np.float32(127) / largest))
    return (numbers * (largest / np.float32(127))).reshape(x.shape).astype(np.float64)


def reach(part: Part, index: int, sees: Sees) -> tuple[int, int]:
    """The places that a row sees, first and behind the last."""
    at, end = part.context + index, part.context + part.size
    ahead = 1 if sees.causal else sees.window or end
    return max(0, at - sees.window + 1) if sees.window else 0, min(end, at + ahead)


def oracle(all_of: Sequences, parts: Sequence[Part], sees: Sees) -> Doubles:
    """[T, N * D] in float64, from K/V as stored."""
    heads = all_of.heads
    out = []
    for part, index, _ in Table(parts).rows():
        first, last = reach(part, index, sees)
        shape = (last - first, heads.keys, heads.size)
        k = stored(all_of.k[part.sequence, first:last], heads).reshape(shape)
        v = stored(all_of.v[part.sequence, first:last], heads).reshape(shape)
        q = all_of.q[part.sequence, part.context + index].astype(np.float64)
        scores = np.einsum("ghd,pgd->ghp", q.reshape(heads.keys, -1, heads.size), k) * sees.scale
        if sees.softcap:
            scores = sees.softcap * np.tanh(scores / sees.softcap)
        weights = np.exp(scores)
        total = weights.sum(-1, keepdims=True)
        if sees.sinks is not None:
            total += np.exp(sees.sinks.astype(np.float64)).reshape(heads.keys, -1, 1)
        out.append(np.einsum("ghp,pgd->ghd", weights / total, v).reshape(-1))
    return np.array(out)


def filled(all_of: Sequences, kernels: Kernels, contexts: Sequence[int] = tuple(CONTEXTS)) -> Store:
    """Contexts in pages that held nothing but NaN before."""
    store = Store(all_of.heads)
    nothing = np.full(store.pool.bytes, 0xFF, np.uint8)
    store.pool.write(list(range(store.pool.count)), address(nothing))
    all_of.fill(store, kernels, contexts)
    return store


@EVERY
@pytest.mark.parametrize("heads", SIZES + BYTES, ids=str)
def test_equals_plain_arithmetic(name: str, heads: Heads) -> None:
    kernels, all_of = Kernels(name, 2), Sequences(heads)
    store = filled(all_of, kernels)
    sinks = uniform(9, heads.queries, size=3.0)
    for sees in (*SIGHTS, Sees(True, 20, 2.0, sinks), Sees(False, sinks=sinks)):
        got = all_of.run(store, kernels, PARTS, sees)
        np.testing.assert_allclose(got, oracle(all_of, PARTS, sees), rtol=0, atol=3e-6)


@pytest.mark.parametrize("case", range(12))
def test_same_bits_everywhere(case: int) -> None:
    """Random sizes and companies, every instruction set, one to three threads."""
    draws = below(100 + case, 1_000_000, 20).tolist()
    size = [16, 32, 48, 64, 80, 128, 24, 40][draws[0] % 8]
    kind = "q8" if size % 32 == 0 and draws[1] % 3 == 0 else "f16"
    groups = 1 + draws[2] % 3
    heads = Heads(groups * (1 + draws[3] % 5), groups, size, kind)
    sees = SIGHTS[draws[4] % len(SIGHTS)]
    if draws[5] % 3 == 0:
        sees = Sees(sees.causal, sees.window, sees.softcap, uniform(case, heads.queries))
    sequences = list(range(1 + draws[6] % 4))
    parts = [Part(s, draws[7 + s] % 300, 1 + draws[12 + s] % 40) for s in sequences]
    all_of = Sequences(heads, seed=case)
    found = []
    for name, threads in itertools.product(instruction_sets(), (1, 2, 3)):
        kernels = Kernels(name, threads)
        store = filled(all_of, kernels, [part.context for part in parts])
        found.append(all_of.run(store, kernels, parts, sees))
    assert all(same_bits(found[0], other) for other in found[1:])
    assert np.isfinite(found[0]).all()


@EVERY
@pytest.mark.parametrize("heads", [SIZES[1], SIZES[3], BYTES[0]], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_company_changes_nothing(name: str, heads: Heads, threads: int) -> None:
    """A span alone, among others in any order; causal rows one by one and in chunks."""
    kernels, all_of = Kernels(name, threads), Sequences(heads)
    for sees in (Sees(), Sees(True, 70), Sees(False, 66)):
        together = all_of.run(filled(all_of, kernels), kernels, PARTS, sees)
        other = all_of.run(filled(all_of, kernels), kernels, PARTS[::-1], sees)
        last = len(together)
        first = 0
        for part in PARTS:
            alone = all_of.run(filled(all_of, kernels), kernels, [part], sees)
            rows = slice(first, first + part.size)
            assert same_bits(together[rows], alone)
            assert same_bits(other[last - part.size : last], alone)
            first, last = first + part.size, last - part.size
        if not sees.causal:
            continue
        for size in (1, 7):
            store, rest = filled(all_of, kernels), []
            for start in range(0, 70, size):
                part = Part(1, start, min(size, 70 - start))
                rest.append(all_of.run(store, kernels, [part], sees))
            assert same_bits(together[9:79], np.concatenate(rest))


@EVERY
@pytest.mark.parametrize("heads", [SIZES[0], SIZES[3], BYTES[0]], ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("where", ["k", "v"])
def test_what_is_not_finite_harms_those_who_see_it(
    name: str, heads: Heads, bad: float, where: str
) -> None:
    """Rows that do not see the place keep their bits; the others become NaN where it is used."""
    if bad == 1e30 and heads.type == "q8":
        pytest.skip("no overflow in 8 bits")
    kernels = Kernels(name)
    for sees, spot in itertools.product(
        (Sees(), Sees(True, 3), Sees(False, 3), Sees(softcap=1.0)), (150, 203, 208)
    ):
        sound, harmed = Sequences(heads), Sequences(heads)
        getattr(harmed, where)[0, spot, 5] = bad
        part = Part(0, 200, 9)
        expected = sound.run(filled(sound, kernels), kernels, [part], sees)
        got = harmed.run(filled(harmed, kernels), kernels, [part], sees)
        own = heads.queries // heads.keys * heads.size  # heads that use the first key/value head
        for index in range(part.size):
            first, last = reach(part, index, sees)
            if first <= spot < last:
                assert np.isnan(got[index, :own]).all()
                assert same_bits(got[index, own:], expected[index, own:])
            else:
                assert same_bits(got[index], expected[index])


@EVERY
@pytest.mark.parametrize("heads", [SIZES[1], BYTES[1]], ids=str)
@pytest.mark.parametrize("size", [1, 9])
def test_quantised_companion(name: str, heads: Heads, size: int) -> None:
    """Whether tiles are folded at once or later, with a NaN in one row."""
    for threads in (1, 2):
        kernels, all_of = Kernels(name, threads), Sequences(heads)
        part = Part(0, 200, size)
        store = filled(all_of, kernels)
        q = all_of.gather(all_of.q, [part])
        q[0, 0] = np.nan
        all_of.write(store, kernels, [part])
        out = store.attend(kernels, Table([part]), q, Sees())
        into, expected = (Quantised.of(size, out.shape[1]) for _ in range(2))
        store.attend_quantised(kernels, Table([part]), q, Sees(), into)
        groups = out.reshape(size, -1, 32)
        largest = np.abs(groups).max(-1)
        with np.errstate(invalid="ignore"):
            numbers = np.nan_to_num(np.rint(groups * (np.float32(127) / largest)[..., None]))
        assert (into.values == numbers.reshape(size, -1)).all()
        assert same_bits(into.scales, np.ascontiguousarray(largest / np.float32(127)))
        assert expected.values.shape == into.values.shape
        assert np.isnan(into.scales[0]).sum() == heads.size // 32


@EVERY
def test_pages_behind_a_window_may_be_gone(name: str) -> None:
    kernels, all_of = Kernels(name), Sequences(Heads())
    store, part, sees = filled(all_of, kernels), Part(0, 200, 9), Sees(True, 30)
    expected = all_of.run(store, kernels, [part], sees)
    store.numbers[0, :2] = -1
    assert same_bits(all_of.run(store, kernels, [part], sees), expected)


@EVERY
def test_long_contexts_grow_the_workspace(name: str) -> None:
    """One program, replayed as its sequence grows past many tiles."""
    heads = Heads(2, 1, 32)
    all_of = Sequences(heads, length=1400, slots=1)
    store, kernels = Store(heads, slots=1, pages=24), Kernels(name, 2)
    runtime = native.Runtime(2, name)
    program = native.Program(runtime)
    parts = [Part(0, 0, 3)]
    table = Table(parts)
    q = np.zeros((3, heads.queries * heads.size), np.float32)
    out = np.zeros_like(q)
    store.append(program, table, q, Sees(), out)
    for start in range(0, 1398, 3):
        part = Part(0, start, 3)
        all_of.write(store, kernels, [part])
        if start % 233 == 0:
            table.move(part)
            q[:] = all_of.gather(all_of.q, [part])
            program.replay()
            np.testing.assert_allclose(out, oracle(all_of, [part], Sees()), rtol=0, atol=3e-6)


@EVERY
@pytest.mark.parametrize("heads", [SIZES[1], SIZES[3], SIZES[4], BYTES[0]], ids=str)
def test_recorded_bits(name: str, heads: Heads) -> None:
    kernels, all_of = Kernels(name, 2), Sequences(heads)
    sinks = uniform(9, heads.queries, size=3.0)
    sights = [Sees(), Sees(False, 70), Sees(True, 20, 2.0, sinks)]
    found = [all_of.run(filled(all_of, kernels), kernels, PARTS, sees) for sees in sights]
    check_golden(
        f"attention {heads.queries}/{heads.keys}x{heads.size} {heads.type}", np.array(found)
    )
