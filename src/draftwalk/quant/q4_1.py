"""Q4_1: 32 values of 4 bits, one fp16 scale and one fp16 minimum."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at
from draftwalk.quant._bits import half, nibbles
from draftwalk.quant._pack import codes_above, half_bytes, join_nibbles


class Q4_1(PackingFormat):  # noqa: N801 - the format's own name
    """scale, minimum (2 bytes each), 16 bytes of nibbles; value = scale * q + minimum."""

    NAME = "Q4_1"
    GGUF_TYPE = 3
    BLOCK = 32
    BYTES = 20
    FLOATS = (half_at(0), half_at(2))

    def unpack(self, blocks: Blocks) -> Values:
        """Product and sum, each rounded."""
        return half(blocks, 0) * nibbles(blocks[:, 4:], 16).astype(np.float32) + half(blocks, 2)

    def pack_blocks(self, values: Values) -> Blocks:
        """As ggml: the codes span the values from smallest to largest."""
        scale, minimum, q = codes_above(values, 15)
        parts = [half_bytes(scale), half_bytes(minimum), join_nibbles(q, 16)]
        return np.concatenate(parts, axis=1)


FORMATS = Q4_1()
