"""Q5_1: 32 values of 5 bits, one fp16 scale and one fp16 minimum."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at
from draftwalk.quant._bits import bit_plane, half, nibbles
from draftwalk.quant._pack import codes_above, half_bytes, join_bit_plane, join_nibbles


class Q5_1(PackingFormat):  # noqa: N801 - the format's own name
    """scale, minimum (2 bytes each), 32 fifth bits (4 bytes), 16 bytes of nibbles.

    value = scale * q + minimum.
    """

    NAME = "Q5_1"
    GGUF_TYPE = 7
    BLOCK = 32
    BYTES = 24
    FLOATS = (half_at(0), half_at(2))

    def unpack(self, blocks: Blocks) -> Values:
        """Product and sum, each rounded."""
        q = nibbles(blocks[:, 8:], 16) | (bit_plane(blocks[:, 4:8]) << np.uint8(4))
        return half(blocks, 0) * q.astype(np.float32) + half(blocks, 2)

    def pack_blocks(self, values: Values) -> Blocks:
        """As ggml: the codes span the values from smallest to largest."""
        scale, minimum, q = codes_above(values, 31)
        fifth = join_bit_plane(q >> np.uint8(4))
        parts = [half_bytes(scale), half_bytes(minimum), fifth, join_nibbles(q, 16)]
        return np.concatenate(parts, axis=1)


FORMATS = Q5_1()
