"""IQ4_NL: 32 values of 4 bits through a table of 16 levels, one fp16 scale."""

from __future__ import annotations

from draftwalk.quant import Blocks, Format, Values, half_at
from draftwalk.quant._bits import half, nibbles
from draftwalk.quant._codebooks import NON_LINEAR


class IQ4_NL(Format):  # noqa: N801 - the format's own name
    """scale (2 bytes), 16 bytes of nibbles as in Q4_0; value = scale * level[q]."""

    NAME = "IQ4_NL"
    GGUF_TYPE = 20
    BLOCK = 32
    BYTES = 18
    FLOATS = (half_at(0),)

    def unpack(self, blocks: Blocks) -> Values:
        """One product per value."""
        return half(blocks, 0) * NON_LINEAR[nibbles(blocks[:, 2:], 16)]


FORMATS = IQ4_NL()
