"""F32: plain 32-bit floats."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Float, PackingFormat, Values


class F32(PackingFormat):
    """One float of 4 bytes, little endian."""

    NAME = "F32"
    GGUF_TYPE = 0
    BLOCK = 1
    BYTES = 4
    FLOATS = (Float(0, "<u4", 0x7F800000),)

    def unpack(self, blocks: Blocks) -> Values:
        """The bytes as they are."""
        return blocks.view("<f4").astype(np.float32)

    def pack_blocks(self, values: Values) -> Blocks:
        """The floats' bytes."""
        return np.ascontiguousarray(values, dtype="<f4").view(np.uint8)


FORMATS = F32()
