"""Q8_0: 32 signed bytes and one fp16 scale."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values
from draftwalk.quant._bits import half


class Q8_0(PackingFormat):  # noqa: N801 - the format's own name
    """scale (2 bytes), then 32 int8; value = integer * scale."""

    NAME = "Q8_0"
    GGUF_TYPE = 8
    BLOCK = 32
    BYTES = 34

    def unpack(self, blocks: Blocks) -> Values:
        """One product per value."""
        return blocks[:, 2:].view(np.int8).astype(np.float32) * half(blocks, 0)

    def pack(self, values: Values) -> Blocks:
        """As ggml: scale = absmax / 127, integers by the unrounded scale, halves away from 0."""
        scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
        inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
        exact = values * inverse
        size = np.abs(exact)
        whole = np.floor(size)
        whole += (size - whole) >= np.float32(0.5)
        integers = np.copysign(whole, exact).astype(np.int8)
        stored = scale.astype("<f2").view(np.uint8)
        return np.concatenate([stored, integers.view(np.uint8)], axis=1)


FORMATS = Q8_0()
