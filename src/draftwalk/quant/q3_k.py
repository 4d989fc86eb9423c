"""Q3_K: 256 values of 3 bits around 4 in 16 groups, with 6-bit group scales around 32."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Format, Values, half_at
from draftwalk.quant._bits import bits_across, half, nibbles, pairs, scaled


class Q3_K(Format):  # noqa: N801 - the format's own name
    """32 bytes of third bits, 64 of pairs in runs of 32, 12 of scales, d (fp16).

    Bit g of third-bit byte j belongs to value j of 32-value run g. Of the scales, bytes 0..7 are
    low nibbles (low halves are scales 0..7, high ones 8..15); bytes 8..11 are top pairs, the lowest
    pairs those of scales 0..3. value = (d * (scale - 32)) * (q - 4), groups of 16.
    """

    NAME = "Q3_K"
    GGUF_TYPE = 11
    BLOCK = 256
    BYTES = 110
    FLOATS = (half_at(108),)

    def unpack(self, blocks: Blocks) -> Values:
        """Scale and product, each rounded."""
        scales = nibbles(blocks[:, 96:104], 8) | (pairs(blocks[:, 104:108], 4) << np.uint8(4))
        signed = (scales.view(np.int8) - np.int8(32)).astype(np.float32)
        q = pairs(blocks[:, 32:96], 32) | (bits_across(blocks[:, :32]) << np.uint8(2))
        return scaled(q.view(np.int8) - np.int8(4), half(blocks, 108) * signed)


FORMATS = Q3_K()
