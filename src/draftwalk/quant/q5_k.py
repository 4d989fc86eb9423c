"""Q5_K: 256 values of 5 bits in 8 groups, with 6-bit group scales and minima."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at
from draftwalk.quant._affine_search import affine_codes
from draftwalk.quant._bits import bits_across, half, nibbles, scaled, scales_and_minima
from draftwalk.quant._pack import (
    half_bytes,
    join_bits_across,
    join_nibbles,
    join_scales_and_minima,
)


class Q5_K(PackingFormat):  # noqa: N801 - the format's own name
    """d, dmin (2 bytes each), 12 bytes of scales and minima, 32 of fifth bits, 128 of nibbles.

    Bit g of fifth-bit byte j belongs to value j of group g. Values as in Q4_K.
    """

    NAME = "Q5_K"
    GGUF_TYPE = 13
    BLOCK = 256
    BYTES = 176
    FLOATS = (half_at(0), half_at(2))

    def unpack(self, blocks: Blocks) -> Values:
        """Scale, product, minimum and difference, each rounded."""
        scales, minima = scales_and_minima(blocks[:, 4:16])
        q = nibbles(blocks[:, 48:], 32) | (bits_across(blocks[:, 16:48]) << np.uint8(4))
        product = scaled(q, half(blocks, 0) * scales.astype(np.float32))
        return product - np.repeat(half(blocks, 2) * minima.astype(np.float32), 32, axis=1)

    def pack_blocks(self, values: Values) -> Blocks:
        """Searched for the least sum of squared differences."""
        found = affine_codes(values, 31)
        integers = join_scales_and_minima(found.scales, found.minima)
        units = [half_bytes(found.d), half_bytes(found.dmin)]
        fifth = join_bits_across(found.q >> np.uint8(4))
        return np.concatenate([*units, integers, fifth, join_nibbles(found.q, 32)], axis=1)


FORMATS = Q5_K()
