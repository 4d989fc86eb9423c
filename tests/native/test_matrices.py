"""Products with matrices of every layout: what the file says, and the same bits in any company."""

import numpy as np
import pytest
from numpy.typing import NDArray

from draftwalk.weights.tensor import RawTensor
from support.golden import check_golden
from support.kernels import EVERY, Floats, Kernels, Quantised, address, native, same_bits, uniform
from support.matrices import FLOATS, HALVES, LAYOUTS, extreme_matrix, random_matrix, width_of

EACH = pytest.mark.parametrize("layout", LAYOUTS)
QUANTISED = pytest.mark.parametrize("layout", HALVES)


def packed(raw: RawTensor, kernels: Kernels, stored: bool = False) -> object:
    name, (outputs, inputs) = raw.format.NAME.lower(), raw.shape
    if stored:
        return native.as_stored(name, address(raw.data), outputs, inputs)
    runtime = native.Runtime(kernels.threads, kernels.instruction_set)
    return native.pack(runtime, name, address(raw.data), outputs, inputs)


def unpacked(raw: RawTensor, kernels: Kernels, stored: bool, index: NDArray[np.int64]) -> Floats:
    matrix = packed(raw, kernels, stored)
    out = np.zeros((len(index), raw.shape[1]), np.float32)
    kernels.call(lambda p: native.unpack(p, matrix, address(index), len(index), address(out)))
    return out


def quantised(x: Floats, kernels: Kernels) -> Quantised:
    rows, width = x.shape
    companion = Quantised.of(rows, width)
    memory = address(companion.memory)
    kernels.call(lambda p: native.quantise(p, address(x), rows, width, memory))
    return companion


def product(raw: RawTensor, x: Floats, kernels: Kernels) -> Floats:
    """x times the matrix transposed, through the int8 companion where the matrix wants it."""
    x = np.ascontiguousarray(x)
    matrix, rows = packed(raw, kernels), len(x)
    companion = None if raw.format.NAME in FLOATS else quantised(x, kernels)
    out = np.zeros((rows, raw.shape[0]), np.float32)
    memory = 0 if companion is None else address(companion.memory)
    parts = [(matrix, 0, 0, address(out), 1.0, 0.0)]
    kernels.call(lambda p: native.linears(p, parts, address(x), memory, rows))
    return out


@EVERY
@EACH
@pytest.mark.parametrize("stored", [False, True], ids=["packed", "stored"])
def test_weights_are_what_the_format_defines(name: str, layout: str, stored: bool) -> None:
    raw = random_matrix(layout, 37, width_of(layout, 96), 3)
    index = np.array([0, 36, 15, 16, 17, 31, 32, 5], np.int64)
    got = unpacked(raw, Kernels(name), stored, index)
    assert same_bits(got, raw.unpack()[index])


@EVERY
@EACH
def test_products_are_near_those_of_floats(name: str, layout: str) -> None:
    raw = random_matrix(layout, 50, width_of(layout, 200), 5)
    x = uniform(6, 9, raw.shape[1])
    kernels = Kernels(name)
    if layout not in FLOATS:
        companion = quantised(x, kernels)
        x = (companion.values.reshape(9, -1, 32) * companion.scales[..., None]).reshape(9, -1)
    exact = x.astype(np.float64) @ raw.unpack().astype(np.float64).T
    scale = np.abs(x.astype(np.float64)) @ np.abs(raw.unpack().astype(np.float64)).T
    assert (np.abs(product(raw, x, kernels) - exact) <= 1e-5 * scale + 1e-6).all()


@EVERY
@QUANTISED
def test_extremes_of_int8_are_exact(name: str, layout: str) -> None:
    """Whole numbers all along, so that nothing is rounded unless a sum overflowed on the way."""
    raw = extreme_matrix(layout, 18, width_of(layout, 64))
    width = raw.shape[1]
    signs = np.sign(uniform(7, 3, width)) + (uniform(7, 3, width) == 0)
    x = 127 * np.concatenate([np.ones((1, width)), -np.ones((1, width)), signs]).astype(np.float32)
    exact = x.astype(np.float64) @ raw.unpack().astype(np.float64).T
    assert np.abs(exact).max() < 2**31
    got = product(raw, x, Kernels(name))
    assert (np.abs(got - exact) <= np.abs(exact) * 2.0**-22 + (np.abs(exact) > 2**24)).all()


@EVERY
@EACH
def test_a_row_is_the_same_in_any_company(name: str, layout: str) -> None:
    """Widths 1 to 70: more than one panel of rows, and every way a panel is cut."""
    raw = random_matrix(layout, 40, width_of(layout, 64), 11)
    x = uniform(12, 70, raw.shape[1])
    alone = np.concatenate([product(raw, x[r : r + 1], Kernels(name)) for r in range(70)])
    for rows in (2, 3, 4, 5, 6, 7, 8, 15, 31, 32, 33, 35, 64, 70):
        got = product(raw, x[:rows], Kernels(name, threads=1 + rows % 2))
        assert same_bits(got, alone[:rows]), rows


@EVERY
@EACH
def test_bits_are_those_recorded(name: str, layout: str) -> None:
    raw = random_matrix(layout, 70, width_of(layout, 288), 21)
    x = uniform(22, 13, raw.shape[1], size=3.0)
    check_golden(f"product {layout}", product(raw, x, Kernels(name, threads=2)))


@EVERY
def test_quantised_activations(name: str) -> None:
    x = uniform(31, 4, 96, size=5.0)
    x[0, :32] = 0.0
    x[1, 40] = np.nan
    x[2, 70] = -np.inf
    x[3, :32] = 1e-38
    got = quantised(x, Kernels(name))
    groups = x.reshape(4, 3, 32)
    peak = np.abs(groups).max(-1)
    assert got.scales[0, 0] == 0
    assert got.scales[3, 0] == 0
    assert not got.values[0, :32].any()
    assert np.isnan(got.scales[1, 1])
    assert np.isnan(got.scales[2, 2])
    usable = np.isfinite(peak) & (peak > 1e-30)
    assert same_bits(got.scales[usable], (peak / np.float32(127))[usable])
    inverse = np.float32(127) / peak[usable]
    rounded = np.rint(groups[usable] * inverse[:, None])
    assert (got.values.reshape(4, 3, 32)[usable] == rounded).all()


@EVERY
def test_bias_multiplier_cap_and_residual(name: str) -> None:
    raw = random_matrix("F32", 21, 32, 41)
    x, bias, residual = uniform(42, 3, 32), uniform(43, 21), uniform(44, 3, 21)
    out = np.zeros((3, 21), np.float32)
    kernels = Kernels(name)
    matrix = packed(raw, kernels)
    parts = [(matrix, address(bias), address(residual), address(out), 0.5, 2.0)]
    kernels.call(lambda p: native.linears(p, parts, address(x), 0, 3))
    sums = (x.astype(np.float64) @ raw.unpack().astype(np.float64).T + bias) * 0.5
    assert np.allclose(out, residual + 2 * np.tanh(sums / 2), atol=1e-5)


@EVERY
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("outputs", [64, 40])
def test_gated_is_its_parts(name: str, activation: str, outputs: int) -> None:
    gate, up = random_matrix("Q4_0", outputs, 64, 51), random_matrix("Q8_0", outputs, 64, 52)
    x = uniform(53, 5, 64)
    kernels = Kernels(name)
    companion = quantised(x, kernels)
    matrices = packed(gate, kernels), packed(up, kernels)
    out = np.zeros((5, outputs), np.float32)
    memory = address(companion.memory)
    kernels.call(
        lambda p: native.gated(
            p, matrices[0], 0, matrices[1], 0, address(x), memory, 5, activation, address(out)
        )
    )
    g, u = product(gate, x, kernels), product(up, x, kernels)
    a = np.empty_like(g)
    kernels.call(lambda p: native.evaluate(p, activation, address(g), address(a), g.size))
    assert same_bits(out, a * u)
