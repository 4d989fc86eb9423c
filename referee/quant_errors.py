"""Record how far ggml's own packing is from tensors of many distributions.

Run in the referee environment: `python referee/quant_errors.py`. It rewrites
`tests/fixtures/quant_errors.npz`: per distribution the source `NAME` (float32 [BLOCKS, 256]) and
per format `NAME.FORMAT`, the sum of squared differences after `ggml_quantize_chunk` without an
importance matrix and unpacking by the `gguf` package.
"""

from __future__ import annotations

import ctypes

import numpy as np
from gguf import GGMLQuantizationType
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize
from llama_cpp._ggml import libggml

from fixtures import FIXTURES

OUT = FIXTURES / "quant_errors.npz"
FORMATS = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
BLOCKS = 12
WIDTH = 256


def sources() -> dict[str, np.ndarray]:
    """Tensors like weights, and tensors that are hard to pack."""
    rng = np.random.default_rng(20250714)
    shape = (BLOCKS, WIDTH)
    normal = rng.standard_normal(shape)
    magnitudes = 10.0 ** rng.uniform(-3, 1, (BLOCKS, WIDTH // 32))
    found = {
        "normal": normal,
        "weights": rng.standard_normal(shape) * 0.02,
        "uniform": rng.uniform(-1, 1, shape),
        "laplace": rng.laplace(size=shape),
        "heavy tails": rng.standard_t(3, shape),
        "outliers": rng.standard_t(1, shape),
        "sparse": rng.standard_normal(shape) * (rng.random(shape) < 0.05),
        "positive": np.abs(rng.standard_normal(shape)) + 1,
        "negative": -np.abs(rng.standard_normal(shape)) - 3,
        "one side": np.maximum(rng.standard_normal(shape), 0),
        "groups apart": rng.standard_normal(shape) * magnitudes.repeat(32, axis=1),
        "few levels": np.round(normal * 2) / 8,
        "far from zero": rng.standard_normal(shape) + 100,
        "far below zero": rng.standard_normal(shape) - 100,
        "large": rng.standard_normal(shape) * 1e4,
        "small": rng.standard_normal(shape) * 1e-4,
        "below fp16": rng.standard_normal(shape) * 1e-6,
    }
    # Ten bits of mantissa are enough, and such numbers compress to half.
    kept = np.uint32(0xFFFFE000)
    return {name: (x.astype(np.float32).view(np.uint32) & kept).view(np.float32)
            for name, x in found.items()}  # fmt: skip


def declared() -> ctypes.CDLL:
    """The library that llama-cpp-python brings, told the quantiser's types."""
    libggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    libggml.ggml_quantize_chunk.argtypes = [
        *(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),  # type, source, destination
        *(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64),  # start, rows, values per row
        ctypes.c_void_p,  # importance matrix
    ]
    return libggml


def packed_by(library: ctypes.CDLL, values: np.ndarray, name: str) -> np.ndarray:
    """[rows, 256] values as [rows, bytes] of a format."""
    kind = GGMLQuantizationType[name]
    block, size = GGML_QUANT_SIZES[kind]
    out = np.empty((len(values), WIDTH // block * size), dtype=np.uint8)
    written = library.ggml_quantize_chunk(
        int(kind), values.ctypes.data, out.ctypes.data, 0, len(values), WIDTH, None
    )
    if written != out.size:
        raise RuntimeError(f"ggml wrote {written} bytes of {name} where {out.size} were expected")
    return out


def main() -> None:
    """Write the fixture."""
    library = declared()
    arrays: dict[str, np.ndarray] = {}
    for source, values in sources().items():
        arrays[source] = values
        for name in FORMATS:
            packed = packed_by(library, values, name)
            back = dequantize(packed, GGMLQuantizationType[name]).astype(np.float64)
            arrays[f"{source}.{name}"] = np.square(back - values).sum()
    np.savez_compressed(OUT, **arrays)
    print(f"{OUT.name}: {len(arrays)} arrays, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
