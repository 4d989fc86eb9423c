"""Q8_0: 32 signed bytes and one fp16 scale."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at
from draftwalk.quant._bits import half
from draftwalk.quant._pack import half_bytes, inverse


class Q8_0(PackingFormat):  # noqa: N801 - the format's own name
    """scale (2 bytes), then 32 int8; value = integer * scale."""

    NAME = "Q8_0"
    GGUF_TYPE = 8
    BLOCK = 32
    BYTES = 34
    FLOATS = (half_at(0),)

    def unpack(self, blocks: Blocks) -> Values:
        """One product per value."""
        return blocks[:, 2:].view(np.int8).astype(np.float32) * half(blocks, 0)

    def pack_blocks(self, values: Values) -> Blocks:
        """As ggml: scale = absmax / 127, integers by the unrounded scale, halves away from 0."""
        scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
        exact = values * inverse(scale)
        size = np.abs(exact)
        whole = np.floor(size)
        whole += (size - whole) >= np.float32(0.5)
        integers = np.copysign(whole, exact).astype(np.int8)
        return np.concatenate([half_bytes(scale), integers.view(np.uint8)], axis=1)


FORMATS = Q8_0()
