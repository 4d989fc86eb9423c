"""MXFP4: 32 values in 4-bit floating point, one power of two as their scale."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Format, Values
from draftwalk.quant._bits import nibbles
from draftwalk.quant._codebooks import E2M1_DOUBLED


def _half_powers() -> Values:
    """2 ** (e - 128) for every exponent byte e; the two smallest are subnormal."""
    exponent = np.arange(256, dtype=np.uint32)
    bits = (np.maximum(exponent, np.uint32(1)) - np.uint32(1)) << np.uint32(23)
    bits[:2] = 0x00200000, 0x00400000
    return bits.view(np.float32)


_HALF_POWERS = _half_powers()


class MXFP4(Format):
    """exponent (1 byte), 16 bytes of nibbles as in Q4_0.

    value = 2 ** (exponent - 128) * doubled[q]. The exponent 255, NaN in the standard, counts on.
    """

    NAME = "MXFP4"
    GGUF_TYPE = 39
    BLOCK = 32
    BYTES = 17

    def unpack(self, blocks: Blocks) -> Values:
        """One product per value."""
        return _HALF_POWERS[blocks[:, :1]] * E2M1_DOUBLED[nibbles(blocks[:, 1:], 16)]


FORMATS = MXFP4()
