"""Record what the `gguf` package unpacks from random blocks, and packs from random values.

Run in the referee environment: `python referee/quant_fixtures.py`. It rewrites
`tests/fixtures/quant.npz`, which holds per format `NAME.blocks` (bytes) and `NAME.values` (the bits
of the float32 results), and `NAME.source` and `NAME.packed` for formats that gguf can write too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

OUT = Path(__file__).parent.parent / "tests" / "fixtures" / "quant.npz"
NAMES = (
    *("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K"),
    *("Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"),
)
PACKED = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
BLOCKS_WITHOUT_GROUPS = 96
BLOCKS = 12
EXTREMES = (0x00, 0x01, 0x02, 0x7B, 0x7F, 0x80, 0xFE, 0xFF)


def random_blocks(name: str, rng: np.random.Generator) -> np.ndarray:
    """Any bytes at all, then each extreme byte throughout a block.

    Scales may be huge, tiny, negative, infinite or NaN.
    """
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    count = BLOCKS_WITHOUT_GROUPS if block == 1 else BLOCKS
    extremes = np.repeat(np.array(EXTREMES, dtype=np.uint8)[:, None], size, axis=1)
    return np.concatenate([rng.integers(0, 256, (count, size), dtype=np.uint8), extremes])


def random_values(rng: np.random.Generator) -> np.ndarray:
    """Rows of 32 of many magnitudes, with zeros, halves that must be rounded, and ties of size."""
    rows = rng.standard_normal((14, 32)).astype(np.float32)
    rows *= np.float32(10.0) ** rng.integers(-9, 6, (14, 1)).astype(np.float32)
    rows[3] = 0
    rows[4] = np.arange(32, dtype=np.float32) - np.float32(15.5)
    rows[4, 0] = 127
    rows[5, ::2] = 0
    rows[6] = np.where(np.arange(32) % 2, np.float32(1.25), np.float32(-1.25))
    half_way = (rows[7].view(np.uint32) & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    rows[7] = half_way.view(np.float32)  # between two bfloat16 numbers
    return rows


def main() -> None:
    """Write the fixture."""
    rng = np.random.default_rng(20240229)
    arrays: dict[str, np.ndarray] = {}
    for name in NAMES:
        blocks = random_blocks(name, rng)
        with np.errstate(all="ignore"):
            values = dequantize(blocks, GGMLQuantizationType[name])
        arrays[f"{name}.blocks"] = blocks
        arrays[f"{name}.values"] = values.view(np.uint32)
    for name in PACKED:
        source = random_values(rng)
        with np.errstate(all="ignore"):
            packed = quantize(source, GGMLQuantizationType[name])
        arrays[f"{name}.source"] = source
        arrays[f"{name}.packed"] = packed.view(np.uint8)
    np.savez_compressed(OUT, **arrays)
    print(f"{OUT.name}: {len(arrays)} arrays, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
