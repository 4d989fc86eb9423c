"""Block formats: how the numbers of a stored tensor are packed into bytes.

One file per format; adding a file adds a format. A tensor is rows of blocks, each block `BYTES`
bytes for `BLOCK` values, and rows never share a block, so rows can be gathered without unpacking.
`unpack` is the definition that kernels are compared with: bit for bit what ggml's reference
(the `gguf` package) computes, in float32 with the same order of roundings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from draftwalk import registry

Blocks = NDArray[np.uint8]
Values = NDArray[np.float32]

_PACKED_AT_ONCE = 1 << 18  # values; bounds the temporaries of packing to some megabytes
_LOOKED_AT_ONCE = 1 << 15  # blocks; what is made on the way stays in cache


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point number that a block stores.

    Attributes:
        at: its first byte, a multiple of its width.
        bits: as an integer type of its width.
        exponent: the bits that are all 1 in NaN and infinities.
    """

    at: int
    bits: str
    exponent: int


def half_at(byte: int) -> Float:
    """An fp16 number, as most scales and minima are."""
    return Float(byte, "<u2", 0x7C00)


class Format(ABC):
    """One block format.

    Attributes:
        NAME: as GGUF tools and safetensors write it.
        GGUF_TYPE: ggml's number, or `None` for a type that GGUF does not have.
        BLOCK: values per block.
        BYTES: bytes per block.
        FLOATS: the floating-point numbers in a block; all else in it is whole numbers.
    """

    NAME: ClassVar[str]
    GGUF_TYPE: ClassVar[int | None]
    BLOCK: ClassVar[int]
    BYTES: ClassVar[int]
    FLOATS: ClassVar[tuple[Float, ...]] = ()

    @abstractmethod
    def unpack(self, blocks: Blocks) -> Values:
        """[N, BYTES] contiguous bytes to [N, BLOCK] values."""

    def is_finite(self, blocks: Blocks) -> bool:
        """Whether no value of [N, BYTES] blocks is NaN or infinite, told without unpacking."""
        for number in self.FLOATS:
            exponent = np.array(number.exponent, dtype=number.bits)
            column = blocks.view(number.bits)[:, number.at // exponent.itemsize]
            for start in range(0, len(column), _LOOKED_AT_ONCE):
                bits = column[start : start + _LOOKED_AT_ONCE] & exponent
                if (bits == exponent).any():
                    return False
        return True


class PackingFormat(Format):
    """A format that can also be written."""

    def pack(self, values: Values) -> Blocks:
        """[N, BLOCK] values to [N, BYTES] bytes, a part at a time to bound the temporaries.

        Quantised formats are for finite values that fp16 scales reach; of others nothing is
        promised but that K-quants make a block of NaN from a block with any that is not finite.
        """
        out = np.empty((len(values), self.BYTES), dtype=np.uint8)
        step = max(1, _PACKED_AT_ONCE // self.BLOCK)
        for start in range(0, len(values), step):
            out[start : start + step] = self.pack_blocks(values[start : start + step])
        return out

    @abstractmethod
    def pack_blocks(self, values: Values) -> Blocks:
        """[N, BLOCK] values to [N, BYTES] bytes, all at once."""


class IntegerFormat(Format):
    """Whole numbers: id maps and masks, never weights."""

    @abstractmethod
    def integers(self, blocks: Blocks) -> NDArray[np.int64]:
        """[N, BYTES] bytes to [N, 1] numbers, exactly."""

    @abstractmethod
    def pack_integers(self, values: NDArray[np.int64]) -> Blocks:
        """[N, 1] numbers to [N, BYTES] bytes; they must fit."""


@cache
def _all() -> tuple[Format, ...]:
    # The registry only asks isinstance; mypy's rule is about calling an abstract class.
    return tuple(registry.find(__name__, "FORMATS", Format))  # type: ignore[type-abstract]


@cache
def formats() -> Mapping[int, Format]:
    """Formats by ggml's type number."""
    numbered = registry.index(_all(), lambda f: () if f.GGUF_TYPE is None else (f.GGUF_TYPE,))
    return MappingProxyType(numbered)


@cache
def formats_by_name() -> Mapping[str, Format]:
    """Formats by name."""
    return MappingProxyType(registry.index(_all(), lambda f: (f.NAME,)))
