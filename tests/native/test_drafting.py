"""Convolution, selector and the greatest logits against plain arithmetic and plain C++."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from draftwalk.ops.torch import TorchOperations
from support.golden import check_golden
from support.kernels import (
    EVERY,
    Floats,
    Kernels,
    Part,
    Quantised,
    Table,
    Whole,
    address,
    below,
    native,
    same_bits,
    uniform,
)

PARTS = [Part(0, 7, 6), Part(1, 0, 1), Part(2, 3, 2), Part(3, 64, 4)]

# ---- convolution ---------------------------------------------------------------------------------


def convolve(
    kernels: Kernels,
    x: Floats,
    dynamic: Floats,
    base: Floats,
    side: int,
    table: Table,
    residual: Floats | None = None,
    into: Quantised | None = None,
) -> Floats:
    taps, width = base.shape[1:]
    groups = dynamic.shape[1] // (2 * taps)
    out = np.full_like(x, 7.0)

    def append(p: Any) -> None:
        call = native.convolve(
            p, address(x), address(dynamic), address(base), side, taps, groups, width,
            address(residual), address(out), table.address,
        )  # fmt: skip
        if into is not None:
            p.quantise(call, address(into.memory), into.rows, into.width)

    kernels.call(append)
    return out


def convolved(
    x: Floats, dynamic: Floats, base: Floats, side: int, parents: Whole
) -> NDArray[np.float64]:
    """Row by row, tap by tap."""
    taps, width = base.shape[1:]
    coefficients = dynamic.reshape(len(x), 2, taps, -1)[:, side]
    groups = coefficients.shape[-1]
    out = np.zeros(x.shape)
    for row in range(len(x)):
        ancestor = row
        for tap in range(taps):
            kernel = base[side, tap] + np.repeat(coefficients[row, tap], width // groups)
            out[row] += kernel.astype(np.float64) * x[ancestor]
            ancestor = int(parents[ancestor])
            if ancestor < 0:
                break
    return out


@EVERY
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("taps", [1, 2, 4])
@pytest.mark.parametrize(("groups", "width"), [(1, 12), (3, 96), (36, 576), (24, 96)])
def test_convolution(name: str, groups: int, width: int, taps: int, side: int) -> None:
    """Also with a residual, along a tree of rows, a span alone, on threads, and in plain C++."""
    table = Table(PARTS)
    x, base = uniform(1, 13, width), uniform(2, 2, taps, width)
    dynamic, residual = uniform(3, 13, 2 * taps * groups), uniform(4, 13, width)
    tree = np.array([-1, 0, 0, 1, 1, 2, -1, -1, 7, -1, 9, 9, 9])
    for rows in (table, Table(PARTS, parents=tree)):
        expected = convolved(x, dynamic, base, side, rows.before)
        got = convolve(Kernels(name, 2), x, dynamic, base, side, rows)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6)
        assert same_bits(got, convolve(Kernels("scalar"), x, dynamic, base, side, rows))
        added = convolve(Kernels(name), x, dynamic, base, side, rows, residual)
        assert same_bits(added, residual + got)
    got = convolve(Kernels(name), x, dynamic, base, side, table)
    own = slice(9, 13)
    alone = Table([PARTS[3]])
    assert same_bits(
        got[own],
        convolve(Kernels(name), x[own].copy(), dynamic[own].copy(), base, side, alone),
    )


@EVERY
def test_quantised_convolution(name: str) -> None:
    x, base, dynamic = uniform(1, 13, 96), uniform(2, 2, 2, 96), uniform(3, 13, 4 * 6)
    into = Quantised.of(13, 96)
    out = convolve(Kernels(name), x, dynamic, base, 0, Table(PARTS), into=into)
    check_golden("convolution", out)
    groups = out.reshape(13, 3, 32)
    largest = np.abs(groups).max(-1)
    assert same_bits(np.ascontiguousarray(into.scales), largest / np.float32(127))
    numbers = np.rint(groups * (np.float32(127) / largest)[..., None]).reshape(13, 96)
    assert (into.values == numbers).all()


@EVERY
def test_rows_without_company_of_not_a_number(name: str) -> None:
    """What another span holds does not matter."""
    x, base, dynamic = uniform(1, 13, 48), uniform(2, 2, 3, 48), uniform(3, 13, 6 * 3)
    expected = convolve(Kernels(name), x, dynamic, base, 0, Table(PARTS))
    x[5] = np.nan
    got = convolve(Kernels(name), x, dynamic, base, 0, Table(PARTS))
    assert same_bits(np.delete(got, 5, 0), np.delete(expected, 5, 0))
    assert np.isnan(got[5]).all()


# ---- selector ------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize(("k", "rank"), [(1, 5), (4, 16), (5, 40), (16, 128)])
def test_selector(name: str, k: int, rank: int) -> None:
    vocabulary, drafted = 100, 9
    tokens = below(1, vocabulary, 13)
    unary, gate = uniform(2, drafted, k), uniform(3, drafted, rank)
    candidates = np.argsort(uniform(4, drafted, vocabulary), 1)[:, :k].astype(np.int64).copy()
    tables = uniform(5, vocabulary, rank), uniform(6, vocabulary, rank)
    table = Table(PARTS, tokens=tokens)

    def scores(kernels: Kernels) -> Floats:
        before, after = (
            native.as_stored("f32", address(part), vocabulary, rank) for part in tables
        )
        out = np.zeros((drafted, k, k), np.float32)
        kernels.call(
            lambda p: native.selector(
                p, address(unary), address(candidates), address(gate), before, after, drafted, k,
                table.address, address(out),
            )
        )  # fmt: skip
        return out

    got = scores(Kernels(name, 2))
    row = 0
    for part, start in zip(PARTS, (0, 6, 7, 9), strict=True):
        for index in range(part.size - 1):
            first = np.full(k, tokens[start])
            previous = first if index == 0 else candidates[row - 1]
            gated = tables[0][previous].astype(np.float64) * gate[row]
            expected = unary[row] + gated @ tables[1][candidates[row]].astype(np.float64).T
            np.testing.assert_allclose(got[row], expected, rtol=0, atol=1e-5)
            row += 1
    assert row == drafted
    assert same_bits(got, scores(Kernels("scalar")))
    check_golden(f"selector {k} {rank}", got)


# ---- the greatest logits -------------------------------------------------------------------------


def top_k(kernels: Kernels, logits: Floats, k: int) -> tuple[Floats, Whole]:
    rows, vocabulary = logits.shape
    values, ids = np.full((rows, k), 7, np.float32), np.full((rows, k), -1, np.int64)
    kernels.call(
        lambda p: native.top_k(
            p, address(logits), rows, vocabulary, k, address(values), address(ids)
        )
    )
    return values, ids


def argmax(kernels: Kernels, logits: Floats) -> tuple[Floats, Whole]:
    rows, vocabulary = logits.shape
    values, ids = np.full(rows, 7, np.float32), np.full(rows, -1, np.int64)
    kernels.call(
        lambda p: native.argmax(p, address(logits), rows, vocabulary, address(values), address(ids))
    )
    return values, ids


def ranking(logits: Floats, k: int) -> tuple[Floats, Whole]:
    """By value, then id; NaN counts as the least."""
    sortable = np.where(np.isnan(logits), -np.inf, logits)
    ids = np.argsort(-sortable, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(sortable, ids, 1), ids


def logit_rows(vocabulary: int) -> Floats:
    """Random, few values, constant, rising, falling, and some that are not finite."""
    rows = [
        uniform(1, vocabulary),
        below(2, 5, vocabulary).astype(np.float32),
        np.zeros(vocabulary, np.float32),
        np.arange(vocabulary, dtype=np.float32),
        -np.arange(vocabulary, dtype=np.float32),
        np.where(below(3, 3, vocabulary) > 0, -np.inf, uniform(4, vocabulary)),
        np.full(vocabulary, -np.inf, np.float32),
        np.where(below(5, 9, vocabulary) == 0, np.inf, uniform(6, vocabulary)),
    ]
    return np.array(rows, np.float32)


@EVERY
@pytest.mark.parametrize("vocabulary", [1, 5, 16, 63, 64, 100, 4097])
def test_top_k_and_argmax(name: str, vocabulary: int) -> None:
    logits = logit_rows(vocabulary)
    kernels = Kernels(name, 2)
    for k in sorted({1, min(7, vocabulary), min(16, vocabulary), vocabulary}):
        values, ids = top_k(kernels, logits, k)
        expected = ranking(logits, k)
        assert (ids == expected[1]).all()
        assert (values == expected[0]).all()
    values, ids = argmax(kernels, logits)
    expected = ranking(logits, 1)
    assert (values == expected[0][:, 0]).all()
    assert (ids == expected[1][:, 0]).all()
    with pytest.raises(ValueError, match="more than there are"):
        top_k(kernels, logits, vocabulary + 1)


@EVERY
@pytest.mark.parametrize("spot", [0, 17, 255, 256, 260])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_not_a_number_is_told(name: str, spot: int, sign: float) -> None:
    """Argmax reports it as the row's value; top-k passes over it."""
    logits = logit_rows(261)
    logits[0, spot] = np.copysign(np.float32(np.nan), np.float32(sign))
    values, _ = argmax(Kernels(name), logits)
    assert np.isnan(values[0])
    assert not np.isnan(values[1:]).any()
    for k in (3, 261):
        values, ids = top_k(Kernels(name), logits, k)
        expected = ranking(logits, k)
        assert (ids == expected[1]).all()
        assert (values == expected[0]).all()


def test_same_as_the_reference_back_end() -> None:
    reference = TorchOperations(torch.device("cpu"), torch.float32)
    logits = logit_rows(300)
    logits[0, 7] = np.nan
    expected = reference.top_k(torch.from_numpy(logits), 16)
    values, ids = top_k(Kernels(native.instruction_sets()[0]), logits, 16)
    assert (expected[1].numpy() == ids).all()
    finite = np.isfinite(values)
    assert (expected[0].numpy()[finite] == values[finite]).all()
