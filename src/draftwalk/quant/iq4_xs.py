"""IQ4_XS: 256 values of 4 bits through a table of 16 levels, with 6-bit group scales."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Format, Values, half_at
from draftwalk.quant._bits import half, nibbles, scaled
from draftwalk.quant._codebooks import NON_LINEAR

_TOP_SHIFTS = np.arange(0, 16, 2, dtype=np.uint16)


class IQ4_XS(Format):  # noqa: N801 - the format's own name
    """d, 2 bytes of scales' top pairs, 4 of their low nibbles, 128 of nibbles in runs of 16.

    value = (d * (scale - 32)) * level[q], groups of 32.
    """

    NAME = "IQ4_XS"
    GGUF_TYPE = 23
    BLOCK = 256
    BYTES = 136
    FLOATS = (half_at(0),)

    def unpack(self, blocks: Blocks) -> Values:
        """Scale and product, each rounded."""
        top = (np.ascontiguousarray(blocks[:, 2:4]).view("<u2") >> _TOP_SHIFTS) & np.uint16(3)
        scales = nibbles(blocks[:, 4:8], 1) | (top.astype(np.uint8) << np.uint8(4))
        signed = (scales.view(np.int8) - np.int8(32)).astype(np.float32)
        return scaled(NON_LINEAR[nibbles(blocks[:, 8:], 16)], half(blocks, 0) * signed)


FORMATS = IQ4_XS()
