"""Q6_K: 256 values of 6 bits around 32 in 16 groups, with signed 8-bit group scales."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Format, Values
from draftwalk.quant._bits import half, nibbles, scaled

_PAIR_SHIFTS = np.array([[0], [2], [4], [6]], dtype=np.uint8)


class Q6_K(Format):  # noqa: N801 - the format's own name
    """128 bytes of nibbles in runs of 64, 64 of high pairs in runs of 32, 16 int8 scales, d (fp16).

    value = (d * scale) * (q - 32), groups of 16.
    """

    NAME = "Q6_K"
    GGUF_TYPE = 14
    BLOCK = 256
    BYTES = 210

    def unpack(self, blocks: Blocks) -> Values:
        """Scale and product, each rounded."""
        pairs = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> _PAIR_SHIFTS) & np.uint8(3)
        high = pairs.reshape(len(blocks), -1) << np.uint8(4)
        q = (nibbles(blocks[:, :128], 64) | high).view(np.int8) - np.int8(32)
        scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
        return scaled(q, half(blocks, 208) * scales)


FORMATS = Q6_K()
