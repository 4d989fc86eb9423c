"""Q6_K: 256 values of 6 bits around 32 in 16 groups, with signed 8-bit group scales."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at
from draftwalk.quant._bits import half, nibbles, pairs, scaled
from draftwalk.quant._pack import half_bytes, join_nibbles, join_pairs
from draftwalk.quant._symmetric_search import symmetric_codes


class Q6_K(PackingFormat):  # noqa: N801 - the format's own name
    """128 bytes of nibbles in runs of 64, 64 of high pairs in runs of 32, 16 int8 scales, d (fp16).

    value = (d * scale) * (q - 32), groups of 16.
    """

    NAME = "Q6_K"
    GGUF_TYPE = 14
    BLOCK = 256
    BYTES = 210
    FLOATS = (half_at(208),)

    def unpack(self, blocks: Blocks) -> Values:
        """Scale and product, each rounded."""
        high = pairs(blocks[:, 128:192], 32) << np.uint8(4)
        q = (nibbles(blocks[:, :128], 64) | high).view(np.int8) - np.int8(32)
        scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
        return scaled(q, half(blocks, 208) * scales)

    def pack_blocks(self, values: Values) -> Blocks:
        """Searched for the least sum of squared differences."""
        found = symmetric_codes(values)
        q = (found.q + np.int8(32)).view(np.uint8)
        low, high = join_nibbles(q, 64), join_pairs(q >> np.uint8(4), 32)
        scales = found.scales.view(np.uint8)
        return np.concatenate([low, high, scales, half_bytes(found.d)], axis=1)


FORMATS = Q6_K()
