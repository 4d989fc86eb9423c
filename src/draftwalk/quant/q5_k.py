"""Q5_K: 256 values of 5 bits in 8 groups, with 6-bit group scales and minima."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Format, Values
from draftwalk.quant._bits import half, nibbles, scaled, scales_and_minima

_GROUP_BITS = np.arange(8, dtype=np.uint8)[:, None]


class Q5_K(Format):  # noqa: N801 - the format's own name
    """d, dmin (2 bytes each), 12 bytes of scales and minima, 32 of fifth bits, 128 of nibbles.

    Bit g of fifth-bit byte j belongs to value j of group g. Values as in Q4_K.
    """

    NAME = "Q5_K"
    GGUF_TYPE = 13
    BLOCK = 256
    BYTES = 176

    def unpack(self, blocks: Blocks) -> Values:
        """Scale, product, minimum and difference, each rounded."""
        scales, minima = scales_and_minima(blocks[:, 4:16])
        fifth = (blocks[:, None, 16:48] >> _GROUP_BITS) & np.uint8(1)
        q = nibbles(blocks[:, 48:], 32) | (fifth.reshape(len(blocks), -1) << np.uint8(4))
        product = scaled(q, half(blocks, 0) * scales.astype(np.float32))
        return product - np.repeat(half(blocks, 2) * minima.astype(np.float32), 32, axis=1)


FORMATS = Q5_K()
