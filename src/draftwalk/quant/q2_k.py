"""Q2_K: 256 values of 2 bits in 16 groups, with 4-bit group scales and minima."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Format, Values, half_at
from draftwalk.quant._bits import half, pairs, scaled


class Q2_K(Format):  # noqa: N801 - the format's own name
    """16 bytes of scale (low half) and minimum (high half), 64 of pairs in runs of 32, d, dmin.

    value = (d * scale) * q - (dmin * minimum), groups of 16.
    """

    NAME = "Q2_K"
    GGUF_TYPE = 10
    BLOCK = 256
    BYTES = 84
    FLOATS = (half_at(80), half_at(82))

    def unpack(self, blocks: Blocks) -> Values:
        """Scale, product, minimum and difference, each rounded."""
        scales = (blocks[:, :16] & np.uint8(0x0F)).astype(np.float32)
        minima = (blocks[:, :16] >> np.uint8(4)).astype(np.float32)
        product = scaled(pairs(blocks[:, 16:80], 32), half(blocks, 80) * scales)
        return product - np.repeat(half(blocks, 82) * minima, 16, axis=1)


FORMATS = Q2_K()
