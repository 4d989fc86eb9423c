"""BF16: the upper half of a 32-bit float."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Float, PackingFormat, Values


class BF16(PackingFormat):
    """One bfloat16 of 2 bytes, little endian."""

    NAME = "BF16"
    GGUF_TYPE = 30
    BLOCK = 1
    BYTES = 2
    FLOATS = (Float(0, "<u2", 0x7F80),)

    def unpack(self, blocks: Blocks) -> Values:
        """Widened, which is exact."""
        return (blocks.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)

    def pack_blocks(self, values: Values) -> Blocks:
        """Rounded to nearest even; a NaN stays one (made quiet)."""
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        half_way = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        rounded = np.where(np.isnan(values), bits | np.uint32(0x00400000), bits + half_way)
        return (rounded >> np.uint32(16)).astype("<u2").view(np.uint8)


FORMATS = BF16()
