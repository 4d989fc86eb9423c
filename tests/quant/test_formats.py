from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from draftwalk.quant import IntegerFormat, formats, formats_by_name
from draftwalk.weights import RawTensor, pack_integers, permute_rows

FIXTURE = Path(__file__).parent.parent / "fixtures" / "quant.npz"
FLOATS = (
    *("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K"),
    *("Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"),
)


@pytest.fixture(scope="module")
def recorded() -> dict[str, NDArray[np.generic]]:
    with np.load(FIXTURE) as arrays:
        return dict(arrays)


def same_bits(ours: NDArray[np.float32], bits: NDArray[np.generic]) -> bool:
    """Equal bit for bit; a NaN only has to be one, its payload depends on the processor."""
    theirs = bits.view(np.float32).reshape(ours.shape)
    nan = np.isnan(theirs)
    equal = ours.view(np.uint32) == theirs.view(np.uint32)
    return bool(np.array_equal(np.isnan(ours), nan) and equal[~nan].all())


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered")
def test_unpacks_like_gguf(name: str, recorded: dict[str, NDArray[np.generic]]) -> None:
    blocks = recorded[f"{name}.blocks"].view(np.uint8)
    format_ = formats_by_name()[name]
    assert blocks.shape[1] == format_.BYTES
    values = format_.unpack(blocks)
    assert values.dtype == np.float32
    assert values.shape == (len(blocks), format_.BLOCK)
    assert np.isfinite(values).any()
    assert same_bits(values, recorded[f"{name}.values"])


def test_every_implemented_type_has_its_ggml_number() -> None:
    numbers = {f.NAME: number for number, f in formats().items()}
    assert numbers == {
        "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10,
        "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ4_NL": 20, "IQ4_XS": 23, "I8": 24,
        "I16": 25, "I32": 26, "I64": 27, "BF16": 30, "MXFP4": 39,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["I8", "I16", "I32", "I64", "BOOL"])
def test_integers_are_exact(name: str) -> None:
    format_ = formats_by_name()[name]
    assert isinstance(format_, IntegerFormat)
    top = 1 if name == "BOOL" else 2 ** (8 * format_.BYTES - 1) - 1
    low = 0 if name == "BOOL" else -top - 1
    values = np.array([[0, 1, top], [low, top // 2, 1]], dtype=np.int64)
    raw = pack_integers("d2t", values, format_)
    assert raw.bytes == 6 * format_.BYTES
    assert np.array_equal(raw.integers(), values)
    assert np.array_equal(raw.unpack(), values.astype(np.float32))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered")
def test_permuted_rows_unpack_to_permuted_values(
    name: str, recorded: dict[str, NDArray[np.generic]]
) -> None:
    format_ = formats_by_name()[name]
    data = recorded[f"{name}.blocks"].view(np.uint8)[:12].reshape(-1)
    raw = RawTensor("x", (6, 2 * format_.BLOCK), format_, data)
    order = np.array([3, 0, 5, 1, 4, 2])
    moved = permute_rows(raw, order)
    assert moved.shape == raw.shape
    assert same_bits(moved.unpack(), raw.unpack()[order].view(np.uint32))
    assert permute_rows(raw, order[:2]).shape == (2, 2 * format_.BLOCK)


def test_unpacking_in_parts_is_unpacking() -> None:
    """A tensor larger than one part of the loop in `RawTensor.unpack`."""
    format_ = formats_by_name()["Q4_0"]
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, 256, (20_000, 18), dtype=np.uint8)
    blocks[:, :2] = np.array([1.0], dtype="<f2").view(np.uint8)
    raw = RawTensor("x", (200, 3200), format_, blocks.reshape(-1))
    assert np.array_equal(raw.unpack(), format_.unpack(blocks).reshape(200, 3200))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered")
def test_whether_blocks_are_finite_is_told_without_unpacking(name: str) -> None:
    """Of random bytes, and of those with a NaN or an infinity in every number of a block."""
    format_ = formats_by_name()[name]
    blocks = np.random.default_rng(3).integers(0, 256, (4000, format_.BYTES), dtype=np.uint8)
    if name == "MXFP4":  # whose scales are whole exponents
        blocks[:, 0] %= 250
    finite = np.isfinite(format_.unpack(blocks)).all(axis=1)
    assert [format_.is_finite(blocks[n : n + 1]) for n in range(400)] == finite[:400].tolist()
    good = np.repeat(blocks[finite][:1], 70_000, axis=0)
    assert format_.is_finite(good)
    for number in format_.FLOATS:
        for bits in (number.exponent, number.exponent | 1):
            bad = good.copy()
            bad.view(number.bits)[69_999, number.at // np.dtype(number.bits).itemsize] = bits
            assert not np.isfinite(format_.unpack(bad[-1:])).all()
            assert not format_.is_finite(bad)
