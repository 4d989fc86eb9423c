"""Read a GGUF file: metadata and tensors, by the names the file gives them.

The file is untrusted and stays mapped; nothing is copied but metadata. GGUF 2 and 3, little
endian. What is wrong with a file is told in one line that names the file and the thing.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

from draftwalk.errors import CheckpointError
from draftwalk.quant import Format, formats
from draftwalk.weights.ggml_types import type_name
from draftwalk.weights.gguf_values import Cursor, Value, ValueType
from draftwalk.weights.mapped import MappedFile
from draftwalk.weights.tensor import RawTensor

MAGIC = b"GGUF"
ALIGNMENT_KEY = "general.alignment"
DEFAULT_ALIGNMENT = 32

_HEADER = 24
_LEAST_KEY_BYTES = 8 + 1 + 4 + 1
_LEAST_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 17
_MOST_DIMENSIONS = 4


class GgufFile:
    """One GGUF file, read and checked.

    Attributes:
        path: the file.
        version: 2 or 3.
        metadata: values by key, as Python objects; arrays are lists.
        tensors: by GGUF name, in the file's order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        mapped = _map(path)
        cursor = Cursor(mapped.memory, path.name, len(MAGIC))
        self.version = _version(cursor)
        tensor_count = cursor.count("the number of tensors", _LEAST_TENSOR_BYTES, _MOST_TENSORS)
        key_count = cursor.count("the number of metadata keys", _LEAST_KEY_BYTES, _MOST_KEYS)
        self.metadata, alignment = _read_metadata(cursor, key_count)
        entries = _read_entries(cursor, tensor_count, alignment)
        start = -(-cursor.position // alignment) * alignment
        self.tensors = _place(entries, mapped, start, cursor)

    @property
    def name(self) -> str:
        """How messages call the file."""
        return self.path.name

    @property
    def architecture(self) -> str:
        """The value of `general.architecture`.

        Raises:
            CheckpointError: it is missing or no text.
        """
        value = self.metadata.get("general.architecture")
        if not isinstance(value, str) or not value or not value.isprintable():
            raise CheckpointError(
                f"{self.name}: key general.architecture is missing or not a text",
                "the file does not say which model it holds",
            )
        return value


_Entry = tuple[str, tuple[int, ...], Format, int]


def _map(path: Path) -> MappedFile:
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
            if head[: len(MAGIC)] != MAGIC:
                raise CheckpointError(f"{path.name} is not a GGUF file", _guess(head))
            if len(head) < _HEADER:
                raise CheckpointError(f"{path.name}: the file ends inside its header")
            return MappedFile.of(file)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


def _guess(head: bytes) -> str:
    """What a file that is not GGUF may be."""
    if head.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer: fetch the file itself with `git lfs pull`"
    if head.startswith(b"PK\x03\x04") or head.startswith(b"\x80"):
        return "it looks like a pickle, which is never opened: use safetensors or GGUF"
    if head[8:10] == b'{"':
        return "it looks like safetensors: give the folder that holds it and its config.json"
    return "models are GGUF files or folders with safetensors"


def _version(cursor: Cursor) -> int:
    version = cursor.uint32("the version")
    if version & 0xFFFF == 0 and version:
        cursor.fail("it is a big-endian GGUF file", "only little-endian files are implemented")
    if version not in (2, 3):
        cursor.fail(f"GGUF version {version} is not implemented", "versions 2 and 3 are")
    return version


def _read_metadata(cursor: Cursor, count: int) -> tuple[dict[str, Value], int]:
    metadata: dict[str, Value] = {}
    alignment = DEFAULT_ALIGNMENT
    for number in range(count):
        key = cursor.name(f"metadata key {number}")
        if key in metadata:
            cursor.fail(f"key {key} occurs twice")
        kind = cursor.value_type(f"key {key}")
        metadata[key] = value = cursor.value(kind, f"key {key}")
        if key == ALIGNMENT_KEY:
            if kind is not ValueType.UINT32 or not isinstance(value, int):
                cursor.fail(f"key {key} has type {kind.name}, expected UINT32")
            if not 8 <= value <= 1 << 16 or value & (value - 1):
                cursor.fail(f"key {key} is {value}, expected a power of two from 8 to 65536")
            alignment = value
    return metadata, alignment


def _read_entries(cursor: Cursor, count: int, alignment: int) -> list[_Entry]:
    known = formats()
    seen: set[str] = set()
    entries: list[_Entry] = []
    for number in range(count):
        name = cursor.name(f"the name of tensor {number}")
        if name in seen:
            cursor.fail(f"tensor {name} occurs twice")
        seen.add(name)
        dimensions = cursor.uint32(f"the dimensions of tensor {name}")
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            cursor.fail(f"tensor {name} has {dimensions} dimensions, expected 1 to 4")
        sizes = [cursor.uint64(f"the shape of tensor {name}") for _ in range(dimensions)]
        kind = cursor.uint32(f"the type of tensor {name}")
        offset = cursor.uint64(f"the offset of tensor {name}")
        if kind not in known:
            cursor.fail(
                f"tensor {name} is stored as {type_name(kind)}, which is not implemented yet",
                "implemented: " + ", ".join(sorted(f.NAME for f in known.values())),
            )
        if sizes[0] % known[kind].BLOCK:
            cursor.fail(
                f"tensor {name} has rows of {sizes[0]}, not whole {known[kind].NAME} blocks"
            )
        if offset % alignment:
            cursor.fail(f"tensor {name} starts at {offset}, not a multiple of {alignment}")
        entries.append((name, tuple(reversed(sizes)), known[kind], offset))
    return entries


def _place(
    entries: list[_Entry], file: MappedFile, start: int, cursor: Cursor
) -> dict[str, RawTensor]:
    tensors: dict[str, RawTensor] = {}
    spans: list[tuple[int, int, str]] = []
    for name, shape, format_, offset in entries:
        size = math.prod(shape) // format_.BLOCK * format_.BYTES  # of Python integers: no overflow
        if size == 0:
            cursor.fail(f"tensor {name} has no elements: shape {list(shape)}")
        first, end = start + offset, start + offset + size
        if end > len(file.data):
            cursor.fail(
                f"tensor {name} ends at byte {end}, the file has {len(file.data)}",
                "it is truncated or damaged",
            )
        tensors[name] = RawTensor(name, shape, format_, file.data[first:end], file)
        spans.append((first, end, name))
    spans.sort()
    for (_, end, name), (first, _, following) in pairwise(spans):
        if first < end:
            cursor.fail(f"tensors {name} and {following} overlap")
    return tensors
