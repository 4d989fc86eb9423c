"""A tensor as its file stores it: bytes in a block format, unpacked only on request."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from draftwalk.errors import CheckpointError
from draftwalk.quant import Format, IntegerFormat, PackingFormat
from draftwalk.weights.mapped import MappedFile

_BLOCKS_AT_ONCE = 1 << 18  # values; keeps the temporaries of unpacking in cache


@dataclass(frozen=True, eq=False, slots=True)
class RawTensor:
    """Bytes with a name, a shape and a block format.

    Attributes:
        name: canonical name (Hugging Face's).
        shape: rows first, as torch prints it; `()` is one value.
        format: how the bytes are packed. Blocks never cross rows of the last dimension.
        data: flat bytes, usually a read-only view of the mapped file.
        file: that file, if the bytes are a view of one.
    """

    name: str
    shape: tuple[int, ...]
    format: Format
    data: NDArray[np.uint8]
    file: MappedFile | None = None

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Stored bytes."""
        return self.data.nbytes

    @property
    def blocks(self) -> NDArray[np.uint8]:
        """The bytes as [N, BYTES]."""
        return self.data.reshape(-1, self.format.BYTES)

    def unpack(self) -> NDArray[np.float32]:
        """The values in float32, exactly as the format defines them."""
        blocks = self.blocks
        out = np.empty((len(blocks), self.format.BLOCK), dtype=np.float32)
        step = max(1, _BLOCKS_AT_ONCE // self.format.BLOCK)
        for start in range(0, len(blocks), step):
            out[start : start + step] = self.format.unpack(blocks[start : start + step])
        return out.reshape(self.shape)

    def integers(self) -> NDArray[np.int64]:
        """The values of an integer tensor, exactly.

        Raises:
            CheckpointError: the tensor holds floats.
        """
        if not isinstance(self.format, IntegerFormat):
            raise CheckpointError(
                f"tensor {self.name} is stored as {self.format.NAME} where integers are needed"
            )
        return self.format.integers(self.blocks).reshape(self.shape)

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite, told without unpacking."""
        return self.format.is_finite(self.blocks)

    def forget(self) -> None:
        """Says that the bytes have been taken: a mapped file's need not stay in memory."""
        if self.file is not None:
            self.file.forget(self.data)


def permute_rows(raw: RawTensor, order: NDArray[np.intp]) -> RawTensor:
    """The rows `order` of the first dimension, copied without unpacking.

    Legal on every format, because rows share no block; `order` may also be a selection.
    """
    rows = raw.shape[0]
    assert len(raw.shape) > 1 or raw.format.BLOCK == 1, "rows of this tensor share blocks"
    data = raw.data.reshape(rows, -1)[order].reshape(-1)
    return replace(raw, shape=(len(order), *raw.shape[1:]), data=data, file=None)


def pack_tensor(name: str, values: NDArray[np.float32], format_: PackingFormat) -> RawTensor:
    """Floats packed in a format that can be written."""
    assert values.size % format_.BLOCK == 0
    assert format_.BLOCK == 1 or values.shape[-1] % format_.BLOCK == 0, "blocks would cross rows"
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, format_.BLOCK)
    return RawTensor(name, values.shape, format_, format_.pack(flat).reshape(-1))


def narrowed(raw: RawTensor, other: Format) -> RawTensor:
    """The tensor in another format if that can be written and takes fewer bytes; else as it is."""
    if not isinstance(other, PackingFormat) or raw.shape[-1] % other.BLOCK:
        return raw
    if other.BYTES * raw.format.BLOCK >= raw.format.BYTES * other.BLOCK:
        return raw
    return pack_tensor(raw.name, raw.unpack(), other)


def pack_integers(name: str, values: NDArray[np.int64], format_: IntegerFormat) -> RawTensor:
    """Whole numbers in an integer format; they must fit."""
    data = format_.pack_integers(np.ascontiguousarray(values, dtype=np.int64).reshape(-1, 1))
    return RawTensor(name, values.shape, format_, data.reshape(-1))
