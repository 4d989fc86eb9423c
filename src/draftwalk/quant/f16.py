"""F16: IEEE half precision."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, PackingFormat, Values, half_at


class F16(PackingFormat):
    """One half of 2 bytes, little endian."""

    NAME = "F16"
    GGUF_TYPE = 1
    BLOCK = 1
    BYTES = 2
    FLOATS = (half_at(0),)

    def unpack(self, blocks: Blocks) -> Values:
        """Widened, which is exact."""
        return blocks.view("<f2").astype(np.float32)

    def pack_blocks(self, values: Values) -> Blocks:
        """Rounded to nearest even; too large becomes infinite."""
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(values.astype("<f2")).view(np.uint8)


FORMATS = F16()
