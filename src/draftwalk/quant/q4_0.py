"""Q4_0: 32 values of 4 bits around 8, one fp16 scale."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at
from draftwalk.quant._bits import half, nibbles
from draftwalk.quant._pack import codes_around, half_bytes, join_nibbles


class Q4_0(PackingFormat):  # noqa: N801 - the format's own name
    """scale (2 bytes), 16 bytes of nibbles (low halves are values 0..15, high ones 16..31).

    value = scale * (q - 8).
    """

    NAME = "Q4_0"
    GGUF_TYPE = 2
    BLOCK = 32
    BYTES = 18
    FLOATS = (half_at(0),)

    def unpack(self, blocks: Blocks) -> Values:
        """One product per value."""
        q = nibbles(blocks[:, 2:], 16).view(np.int8) - np.int8(8)
        return half(blocks, 0) * q.astype(np.float32)

    def pack_blocks(self, values: Values) -> Blocks:
        """As ggml: the value of largest size becomes exactly -8 steps."""
        scale, q = codes_around(values, 8)
        return np.concatenate([half_bytes(scale), join_nibbles(q, 16)], axis=1)


FORMATS = Q4_0()
