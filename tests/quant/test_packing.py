from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from draftwalk.quant import PackingFormat, formats_by_name
from draftwalk.weights import pack_tensor

FIXTURES = Path(__file__).parent.parent / "fixtures"
LIKE_GGML = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
SEARCHED = ("Q4_K", "Q5_K", "Q6_K")


def packing(name: str) -> PackingFormat:
    format_ = formats_by_name()[name]
    assert isinstance(format_, PackingFormat)
    return format_


def normal(name: str, rows: int, seed: int = 0) -> NDArray[np.float32]:
    shape = (rows, packing(name).BLOCK)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def errors() -> dict[str, NDArray[np.generic]]:
    """Tensors, and what ggml's packing leaves of them: see referee/quant_errors.py."""
    with np.load(FIXTURES / "quant_errors.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("name", ["F32", "F16", "BF16", *LIKE_GGML])
def test_packs_like_gguf(name: str) -> None:
    with np.load(FIXTURES / "quant.npz") as recorded:
        source = recorded[f"{name}.source"].view(np.float32)
        packed = recorded[f"{name}.packed"].view(np.uint8).reshape(-1)
    assert np.array_equal(pack_tensor("x", source, packing(name)).data, packed)


@pytest.mark.parametrize("name", [*LIKE_GGML, *SEARCHED])
def test_errors_are_no_larger_than_those_of_ggml(
    name: str, errors: dict[str, NDArray[np.generic]]
) -> None:
    # Compilers may fuse ggml's product and sum, so a value halfway between two codes can go either
    # way there: as far from both, but for the last digits.
    slack = 1 + 1e-6 if name in LIKE_GGML else 1
    sources = {key: x.view(np.float32) for key, x in errors.items() if "." not in key}
    assert len(sources) > 10
    for source, values in sources.items():
        back = pack_tensor("x", values, packing(name)).unpack().astype(np.float64)
        ours, theirs = np.square(back - values).sum(), float(errors[f"{source}.{name}"])
        assert ours <= theirs * slack, f"{source}: {ours} > {theirs}"


def test_q8_0_error_is_half_a_step() -> None:
    values = np.random.default_rng(0).standard_normal((40, 64)).astype(np.float32)
    back = pack_tensor("x", values, packing("Q8_0")).unpack()
    step = np.abs(values.reshape(-1, 32)).max(axis=1) / 127
    # The stored scale is a half: it may be off by 2**-11 of itself, 127 times.
    bound = step * (0.5 + 127 * 2**-11 + 1e-3)
    assert (np.abs(back - values).reshape(-1, 32) <= bound[:, None]).all()


@pytest.mark.parametrize("name", SEARCHED)
def test_packing_again_changes_next_to_nothing(name: str) -> None:
    format_ = packing(name)
    values = normal(name, 64)
    once = format_.unpack(format_.pack(values))
    twice = format_.unpack(format_.pack(once))
    assert np.square(twice - once).mean() < 0.005 * np.square(once - values).mean()


@pytest.mark.parametrize("name", [*LIKE_GGML, *SEARCHED])
def test_a_block_does_not_depend_on_its_neighbours(name: str) -> None:
    format_ = packing(name)
    values = normal(name, 40)
    together = format_.pack(values)
    assert together.shape == (40, format_.BYTES)
    alone = [format_.pack(values[i : i + 1]) for i in range(40)]
    assert np.array_equal(together, np.concatenate(alone))
    assert format_.pack(values[:0]).shape == (0, format_.BYTES)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_K"])
def test_packing_in_parts_is_packing(name: str) -> None:
    """More values than one part of the loop in `PackingFormat.pack`."""
    format_ = packing(name)
    values = normal(name, (1 << 18) // format_.BLOCK + 3)
    assert np.array_equal(format_.pack(values), format_.pack_blocks(values))


@pytest.mark.parametrize("name", [*LIKE_GGML, *SEARCHED])
@pytest.mark.parametrize("magnitude", [0.0, 1e-45, 1e-39, 1e-30, 1e-20, 1e-12])
@pytest.mark.filterwarnings("error")
def test_what_is_far_too_small_becomes_zero(name: str, magnitude: float) -> None:
    format_ = packing(name)
    values = (normal(name, 4).astype(np.float64) * magnitude).astype(np.float32)
    assert not format_.unpack(format_.pack(values)).any()


@pytest.mark.parametrize("name", [*LIKE_GGML, *SEARCHED])
@pytest.mark.parametrize("value", [1.0, -1.0, 3.7, -250.0])
@pytest.mark.filterwarnings("error")
def test_equal_values_are_kept(name: str, value: float) -> None:
    format_ = packing(name)
    values = np.full((2, format_.BLOCK), value, dtype=np.float32)
    back = format_.unpack(format_.pack(values))
    assert np.abs(back - values).max() <= 2**-10 * abs(value)


@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.parametrize("fault", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("error")
def test_a_block_with_a_value_that_is_not_finite_becomes_nan(name: str, fault: float) -> None:
    format_ = packing(name)
    values = normal(name, 5)
    sound = format_.pack(values)
    values[2, 77] = fault
    packed = format_.pack(values)
    assert np.isnan(format_.unpack(packed)[2]).all()
    assert np.array_equal(np.delete(packed, 2, axis=0), np.delete(sound, 2, axis=0))


@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.parametrize("magnitude", [1e8, 1e20, 3e38])
@pytest.mark.filterwarnings("error")
def test_what_is_too_large_stays_finite(name: str, magnitude: float) -> None:
    format_ = packing(name)
    values = np.clip(normal(name, 3), -1, 1) * np.float32(magnitude)
    back = format_.unpack(format_.pack(values))
    assert np.isfinite(back).all()
    assert np.abs(back).max() > 5e7
