"""Q4_K: 256 values of 4 bits in 8 groups, with 6-bit group scales and minima."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at
from draftwalk.quant._affine_search import affine_codes
from draftwalk.quant._bits import half, nibbles, scaled, scales_and_minima
from draftwalk.quant._pack import half_bytes, join_nibbles, join_scales_and_minima


class Q4_K(PackingFormat):  # noqa: N801 - the format's own name
    """d, dmin (2 bytes each), 12 bytes of scales and minima, 128 bytes of nibbles in runs of 32.

    value = (d * scale) * q - (dmin * minimum), groups of 32.
    """

    NAME = "Q4_K"
    GGUF_TYPE = 12
    BLOCK = 256
    BYTES = 144
    FLOATS = (half_at(0), half_at(2))

    def unpack(self, blocks: Blocks) -> Values:
        """Scale, product, minimum and difference, each rounded."""
        scales, minima = scales_and_minima(blocks[:, 4:16])
        q = nibbles(blocks[:, 16:], 32)
        product = scaled(q, half(blocks, 0) * scales.astype(np.float32))
        return product - np.repeat(half(blocks, 2) * minima.astype(np.float32), 32, axis=1)

    def pack_blocks(self, values: Values) -> Blocks:
        """Searched for the least sum of squared differences."""
        found = affine_codes(values, 15)
        integers = join_scales_and_minima(found.scales, found.minima)
        units = [half_bytes(found.d), half_bytes(found.dmin)]
        return np.concatenate([*units, integers, join_nibbles(found.q, 32)], axis=1)


FORMATS = Q4_K()
