"""Build GGUF bytes by hand, so that a test can lie about any of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = (
    range(13)
)
SCALARS = {
    UINT8: "<B", INT8: "<b", UINT16: "<H", INT16: "<h", UINT32: "<I", INT32: "<i", FLOAT32: "<f",
    BOOL: "<B", UINT64: "<Q", INT64: "<q", FLOAT64: "<d",
}  # fmt: skip


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str | bytes, length: int | None = None) -> bytes:
    """A string, with a length of its own choice."""
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw) if length is None else length) + raw


def key(name: str | bytes, kind: int, payload: bytes) -> bytes:
    return text(name) + u32(kind) + payload


def scalar(name: str, kind: int, value: float | str) -> bytes:
    """One key with one value of any type."""
    if kind == STRING:
        return key(name, kind, text(str(value)))
    return key(name, kind, struct.pack(SCALARS[kind], value))


def array(name: str, kind: int, count: int, payload: bytes) -> bytes:
    return key(name, ARRAY, u32(kind) + u64(count) + payload)


def values(name: str, kind: int, items: Sequence[float | str]) -> bytes:
    """One key with an honest array."""
    if kind == STRING:
        return array(name, kind, len(items), b"".join(text(str(item)) for item in items))
    payload = b"".join(struct.pack(SCALARS[kind], item) for item in items)
    return array(name, kind, len(items), payload)


def entry(name: str | bytes, sizes: Sequence[int], kind: int, offset: int) -> bytes:
    """The description of one tensor, sizes in GGUF's order (rows last)."""
    dims = b"".join(u64(size & (1 << 64) - 1) for size in sizes)
    return text(name) + u32(len(sizes)) + dims + u32(kind) + u64(offset)


def file(
    keys: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
) -> bytes:
    """A whole file; `counts` (tensors, keys) replaces the true ones."""
    tensor_count, key_count = (len(tensors), len(keys)) if counts is None else counts
    head = b"GGUF" + u32(version) + u64(tensor_count) + u64(key_count)
    head += b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data
