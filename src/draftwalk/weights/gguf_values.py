"""The types of GGUF metadata, and a cursor that reads them from an untrusted file.

Every count is compared with the bytes that are left before anything is made of it.
"""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum
from typing import NoReturn

import numpy as np

from draftwalk.errors import CheckpointError

Scalar = bool | int | float | str
Value = Scalar | list[bool] | list[int] | list[float] | list[str]

_U64 = struct.Struct("<Q")
_LONGEST_NAME = 1024
_MOST_ELEMENTS = 1 << 24  # of one array; the largest vocabularies have 2**18 tokens


class ValueType(IntEnum):
    """GGUF's numbers for the types of metadata values."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


CODES: dict[ValueType, str] = {
    ValueType.UINT8: "<u1",
    ValueType.INT8: "<i1",
    ValueType.UINT16: "<u2",
    ValueType.INT16: "<i2",
    ValueType.UINT32: "<u4",
    ValueType.INT32: "<i4",
    ValueType.FLOAT32: "<f4",
    ValueType.BOOL: "<u1",
    ValueType.UINT64: "<u8",
    ValueType.INT64: "<i8",
    ValueType.FLOAT64: "<f8",
}


class Cursor:
    """Reads forward through a mapped file and never past its end.

    Args:
        data: the whole file.
        where: the file, for messages.
        start: first byte to read.
    """

    def __init__(self, data: mmap.mmap, where: str, start: int) -> None:
        self._data = data
        self._end = len(data)
        self._where = where
        self.position = start

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self._end - self.position

    def fail(self, what: str, hint: str = "the file is damaged") -> NoReturn:
        """One line that names the file."""
        raise CheckpointError(f"{self._where}: {what}", hint)

    def count(self, what: str, least_bytes: int, most: int) -> int:
        """A 64-bit count of things that take at least so many bytes each."""
        number = self.uint64(what)
        if number > self.left // least_bytes or number > most:
            self.fail(f"{what} is {number}, more than the file can hold")
        return number

    def uint32(self, what: str) -> int:
        """A 32-bit number."""
        return int.from_bytes(self._take(4, what), "little")

    def uint64(self, what: str) -> int:
        """A 64-bit number."""
        return int.from_bytes(self._take(8, what), "little")

    def name(self, what: str) -> str:
        """A key or tensor name: not empty, printable, of sane length."""
        length = self.uint64(f"the length of {what}")
        if length > _LONGEST_NAME:
            self.fail(f"{what} has a length of {length}")
        text = self._text(self._take(length, what), what)
        if not text or not text.isprintable():
            self.fail(f"{what} is empty or not printable")
        return text

    def value_type(self, what: str) -> ValueType:
        """The type of a value."""
        number = self.uint32(f"the type of {what}")
        try:
            return ValueType(number)
        except ValueError:
            self.fail(f"{what} has the unknown type {number}")

    def value(self, kind: ValueType, what: str) -> Value:
        """One value of a type, arrays included."""
        if kind is ValueType.ARRAY:
            return self._array(what)
        if kind is ValueType.STRING:
            return self._text(self._take(self.uint64(f"the length of {what}"), what), what)
        dtype = np.dtype(CODES[kind])
        number = np.frombuffer(self._take(dtype.itemsize, what), dtype)[0]
        if kind is ValueType.BOOL:
            if number > 1:
                self.fail(f"{what} is a bool of value {number}")
            return bool(number)
        if kind is ValueType.FLOAT32:
            # The shortest decimal that gives this float32: 1e-05 stays 1e-05 when read as double.
            return float(str(number))
        return float(number) if kind is ValueType.FLOAT64 else int(number)

    def _take(self, size: int, what: str) -> bytes:
        if size > self.left:
            self.fail(f"the file ends inside {what}", "it is truncated or damaged")
        start = self.position
        self.position = start + size
        return self._data[start : self.position]

    def _text(self, raw: bytes, what: str) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.fail(f"{what} is not valid UTF-8")

    def _array(self, what: str) -> list[bool] | list[int] | list[float] | list[str]:
        kind = self.value_type(f"the elements of {what}")
        if kind is ValueType.ARRAY:
            self.fail(f"{what} is an array of arrays", "no known key is")
        length = f"the number of elements of {what}"
        if kind is ValueType.STRING:
            return self._strings(self.count(length, 8, _MOST_ELEMENTS), what)
        dtype = np.dtype(CODES[kind])
        count = self.count(length, dtype.itemsize, _MOST_ELEMENTS)
        values = np.frombuffer(self._data, dtype, count, self.position)
        self.position += count * dtype.itemsize
        if kind is ValueType.BOOL:
            if (values > 1).any():
                self.fail(f"{what} has a bool that is neither 0 nor 1")
            return list(values.astype(np.bool_).tolist())
        return list(values.tolist())

    def _strings(self, count: int, what: str) -> list[str]:
        """A tight loop: vocabularies have hundreds of thousands of them."""
        data, position, last = self._data, self.position, self._end - 8
        unpack = _U64.unpack_from
        raw: list[bytes] = []
        for _ in range(count):
            if position > last:
                self.fail(f"the file ends inside {what}", "it is truncated or damaged")
            stop = position + 8 + unpack(data, position)[0]
            if stop > self._end:
                self.fail(f"element {len(raw)} of {what} is longer than the file")
            raw.append(data[position + 8 : stop])
            position = stop
        self.position = position
        try:
            return [text.decode() for text in raw]
        except UnicodeDecodeError:
            self.fail(f"{what} has a string that is not valid UTF-8")
