"""Q5_0: 32 values of 5 bits around 16, one fp16 scale."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at
from draftwalk.quant._bits import bit_plane, half, nibbles
from draftwalk.quant._pack import codes_around, half_bytes, join_bit_plane, join_nibbles


class Q5_0(PackingFormat):  # noqa: N801 - the format's own name
    """scale (2 bytes), 32 fifth bits (4 bytes), 16 bytes of nibbles; value = scale * (q - 16)."""

    NAME = "Q5_0"
    GGUF_TYPE = 6
    BLOCK = 32
    BYTES = 22
    FLOATS = (half_at(0),)

    def unpack(self, blocks: Blocks) -> Values:
        """One product per value."""
        q = nibbles(blocks[:, 6:], 16) | (bit_plane(blocks[:, 2:6]) << np.uint8(4))
        return half(blocks, 0) * (q.view(np.int8) - np.int8(16)).astype(np.float32)

    def pack_blocks(self, values: Values) -> Blocks:
        """As ggml: the value of largest size becomes exactly -16 steps."""
        scale, q = codes_around(values, 16)
        fifth = join_bit_plane(q >> np.uint8(4))
        return np.concatenate([half_bytes(scale), fifth, join_nibbles(q, 16)], axis=1)


FORMATS = Q5_0()
