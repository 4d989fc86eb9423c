"""Write a GGUF file: metadata, and tensors as they are packed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from draftwalk.weights.gguf import ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC
from draftwalk.weights.gguf_values import CODES, Scalar, Value, ValueType
from draftwalk.weights.planned import PlannedTensor, planned
from draftwalk.weights.tensor import RawTensor
from draftwalk.weights.whole_file import whole_file


@dataclass(frozen=True, slots=True)
class Typed:
    """A metadata value with its GGUF type; for an array, the type of its elements."""

    kind: ValueType
    value: Value


def _nothing(done: int) -> None:
    """Nobody asked."""


def write_gguf(
    path: Path,
    metadata: Mapping[str, Value | Typed],
    tensors: Sequence[RawTensor | PlannedTensor],
    version: int = 3,
    progress: Callable[[int], None] = _nothing,
) -> None:
    """Write a file beside its name and rename it, so that it appears only when it is whole.

    Args:
        path: the file to write; an existing one is replaced.
        metadata: plain values become BOOL, UINT32 (in arrays INT32), FLOAT32 and STRING;
            `Typed` says otherwise.
        tensors: their names are written as they are.
        version: 2 or 3 (the two differ only in the number).
        progress: told the bytes of tensors written so far.
    """
    alignment = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    assert isinstance(alignment, int)
    plans = [*map(planned, tensors)]
    with whole_file(path) as file:
        file.write(_header(metadata, plans, version, alignment))
        done = 0
        for one in plans:
            _pad(file, alignment)
            raw = one.made()
            file.write(np.ascontiguousarray(raw.data).data)
            raw.forget()
            done += one.bytes
            progress(done)
        _pad(file, alignment)


def _header(
    metadata: Mapping[str, Value | Typed],
    tensors: Sequence[PlannedTensor],
    version: int,
    alignment: int,
) -> bytes:
    parts = [MAGIC, struct.pack("<IQQ", version, len(tensors), len(metadata))]
    for key, value in metadata.items():
        parts += [_string(key), _value(value if isinstance(value, Typed) else _typed(value))]
    offset = 0
    for raw in tensors:
        number = raw.format.GGUF_TYPE
        assert number is not None, f"GGUF has no type {raw.format.NAME}"
        sizes = tuple(reversed(raw.shape)) or (1,)
        parts += [_string(raw.name), struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)]
        parts.append(struct.pack("<IQ", number, offset))
        offset += -(-raw.bytes // alignment) * alignment
    return b"".join(parts)


def _pad(file: BinaryIO, alignment: int) -> None:
    file.write(bytes(-file.tell() % alignment))


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _typed(value: Value) -> Typed:
    """The type a plain value gets."""
    in_array = isinstance(value, list)
    kinds = {_scalar_type(item, in_array) for item in value} if isinstance(value, list) else set()
    if not in_array:
        assert not isinstance(value, list)
        return Typed(_scalar_type(value, in_array), value)
    assert len(kinds) <= 1, "an array has elements of one type"
    return Typed(kinds.pop() if kinds else ValueType.STRING, value)


def _scalar_type(value: Scalar, in_array: bool) -> ValueType:
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, int):
        return ValueType.INT32 if in_array else ValueType.UINT32
    return ValueType.FLOAT32 if isinstance(value, float) else ValueType.STRING


def _value(typed: Typed) -> bytes:
    if isinstance(typed.value, list):
        head = struct.pack("<IIQ", ValueType.ARRAY, typed.kind, len(typed.value))
        if typed.kind is ValueType.STRING:
            return head + b"".join(_string(str(item)) for item in typed.value)
        return head + np.array(typed.value, dtype=CODES[typed.kind]).tobytes()
    head = struct.pack("<I", typed.kind)
    if isinstance(typed.value, str):
        return head + _string(typed.value)
    return head + np.array(typed.value, dtype=CODES[typed.kind]).tobytes()
