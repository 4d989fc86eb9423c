"""exp, tanh and activations: accurate, exact where it matters, the same bits everywhere."""

import numpy as np
import pytest
from numpy.typing import NDArray

from support.golden import check_golden
from support.kernels import EVERY, Floats, Kernels, address, native, same_bits

Doubles = NDArray[np.float64]

EDGES = np.array(
    [
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 0.625, -0.625],
        [88.72283, 88.72284, -87.33654, -87.33655, -88.0, -104.0, 1e30, -1e30, 3e38, -3e38],
    ],
    np.float32,
).ravel()


def evaluate(name: str, function: str, x: Floats) -> Floats:
    out = np.empty_like(x)
    Kernels(name).call(lambda p: native.evaluate(p, function, address(x), address(out), x.size))
    return out


def logistic_times(x: Doubles, inner: Doubles) -> Doubles:
    return x / (1 + np.exp(-inner))


REFERENCES = {
    "exp": np.exp,
    "exp_below": np.exp,
    "tanh": np.tanh,
    "silu": lambda x: logistic_times(x, x),
    "gelu_tanh": lambda x: logistic_times(x, np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)),
}


def errors(got: Floats, exact: Doubles) -> Doubles:
    """In units of the last place."""
    return np.abs(got - exact) / np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)


@EVERY
@pytest.mark.parametrize(
    ("function", "low", "high", "limit"),
    [
        ("exp", -87.33, 88.72, 1.0),
        ("exp", -1.0, 1.0, 1.0),
        ("exp_below", -87.33, 0.0, 1.0),
        ("tanh", -12.0, 12.0, 1.5),
        ("tanh", -0.7, 0.7, 1.5),
        ("silu", -16.0, 80.0, 3.0),
        ("gelu_tanh", -1.0, 20.0, 4.0),
    ],
)
def test_accurate_on_dense_grids(
    name: str, function: str, low: float, high: float, limit: float
) -> None:
    x = np.linspace(low, high, 200_001, dtype=np.float32)
    exact = REFERENCES[function](x.astype(np.float64))
    assert errors(evaluate(name, function, x), exact).max() < limit


@EVERY
def test_gelu_is_accurate_in_its_tail(name: str) -> None:
    """Relative to what it is a part of: the cubed input's rounding grows under exp."""
    x = np.linspace(-12.0, -1.0, 100_001, dtype=np.float32)
    exact = REFERENCES["gelu_tanh"](x.astype(np.float64))
    assert np.abs(evaluate(name, "gelu_tanh", x) - exact).max() < 1e-7


@EVERY
def test_ends_of_exp(name: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, 88.72284, -87.33655, 1e30, -1e30], np.float32)
    expected = np.array([1.0, 1.0, np.inf, 0.0, np.inf, 0.0, np.inf, 0.0], np.float32)
    assert same_bits(evaluate(name, "exp", x), expected)
    edges = np.array([88.72283, -87.33654], np.float32)
    assert np.isfinite(evaluate(name, "exp", edges)).all()
    assert evaluate(name, "exp", edges)[1] >= np.finfo(np.float32).tiny
    assert np.isnan(evaluate(name, "exp", np.array([np.nan], np.float32)))[0]


@EVERY
@pytest.mark.parametrize("function", ["tanh", "silu", "gelu_tanh"])
def test_special_values(name: str, function: str) -> None:
    x = np.array([0.0, -0.0, np.inf, np.nan], np.float32)
    expected = np.array([0.0, -0.0, 1.0 if function == "tanh" else np.inf, np.nan], np.float32)
    assert same_bits(evaluate(name, function, x), expected)


@EVERY
@pytest.mark.parametrize("function", list(REFERENCES))
def test_same_bits_as_plain_code(name: str, function: str) -> None:
    """Over floats of all bits, evenly spaced, and the edges; any count of them."""
    x = samples(function)
    for count in (1, 15, 17, x.size):
        part = x[-count:].copy()
        assert same_bits(evaluate(name, function, part), evaluate("scalar", function, part))


@EVERY
@pytest.mark.parametrize("function", list(REFERENCES))
def test_recorded_bits(name: str, function: str) -> None:
    check_golden(function, evaluate(name, function, samples(function)))


def samples(function: str) -> Floats:
    every = np.arange(0, 2**32, 65_521, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([EDGES, every])
    return x[x <= 0] if function == "exp_below" else x
