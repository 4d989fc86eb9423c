"""I8, I16, I32, I64 and BOOL: vocabulary maps and masks beside the weights."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from draftwalk.quant import Blocks, IntegerFormat, Values


class _Whole(IntegerFormat):
    """Signed numbers of one width, little endian."""

    BLOCK = 1
    DTYPE: ClassVar[str]

    def unpack(self, blocks: Blocks) -> Values:
        """As float32, rounded where they need more than 24 bits."""
        return self.integers(blocks).astype(np.float32)

    def integers(self, blocks: Blocks) -> NDArray[np.int64]:
        """Widened, which is exact."""
        return blocks.view(self.DTYPE).astype(np.int64)

    def pack_integers(self, values: NDArray[np.int64]) -> Blocks:
        """Narrowed; a number that does not fit is our mistake."""
        narrow = values.astype(self.DTYPE)
        assert np.array_equal(narrow.astype(np.int64), values), f"numbers do not fit {self.NAME}"
        return np.ascontiguousarray(narrow).view(np.uint8)


class I8(_Whole):
    """One byte."""

    NAME = "I8"
    GGUF_TYPE = 24
    BYTES = 1
    DTYPE = "<i1"


class I16(_Whole):
    """Two bytes."""

    NAME = "I16"
    GGUF_TYPE = 25
    BYTES = 2
    DTYPE = "<i2"


class I32(_Whole):
    """Four bytes."""

    NAME = "I32"
    GGUF_TYPE = 26
    BYTES = 4
    DTYPE = "<i4"


class I64(_Whole):
    """Eight bytes."""

    NAME = "I64"
    GGUF_TYPE = 27
    BYTES = 8
    DTYPE = "<i8"


class Bool(IntegerFormat):
    """One byte; anything but 0 is true. Only safetensors has it."""

    NAME = "BOOL"
    GGUF_TYPE = None
    BLOCK = 1
    BYTES = 1

    def unpack(self, blocks: Blocks) -> Values:
        """0.0 and 1.0."""
        return self.integers(blocks).astype(np.float32)

    def integers(self, blocks: Blocks) -> NDArray[np.int64]:
        """0 and 1."""
        return np.minimum(blocks, 1).astype(np.int64)

    def pack_integers(self, values: NDArray[np.int64]) -> Blocks:
        """0 and 1."""
        assert values.size == 0 or (values.min() >= 0 and values.max() <= 1), "no truth values"
        return values.astype(np.uint8)


FORMATS = (I8(), I16(), I32(), I64(), Bool())
