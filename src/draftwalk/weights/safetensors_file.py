"""Read one safetensors file: a JSON header, then the bytes of its tensors without gaps.

Own reading instead of the library's, because tensors stay views of the mapped file, whatever
their type, and errors name the file and the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from draftwalk.errors import CheckpointError
from draftwalk.quant import Format, formats_by_name
from draftwalk.weights.fields import INDEXES, MAPPING, TEXT, Fields
from draftwalk.weights.json_file import parse_json_object
from draftwalk.weights.mapped import MappedFile
from draftwalk.weights.tensor import RawTensor

_LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100_000_000  # the format's own limit
_READABLE = ("F32", "F16", "BF16", "I8", "I16", "I32", "I64", "BOOL")


def read_safetensors(path: Path) -> dict[str, RawTensor]:
    """The tensors of a file by name.

    Raises:
        CheckpointError: the file is damaged, or has a tensor of a type that is not implemented.
    """
    file = _map(path)
    data = file.data
    length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    if length > min(len(data) - _LENGTH_BYTES, _MOST_HEADER_BYTES):
        raise CheckpointError(
            f"{path.name}: its header would take {length} bytes, the file has {len(data)}",
            "it is truncated or no safetensors file",
        )
    start = _LENGTH_BYTES + length
    header = parse_json_object(data[_LENGTH_BYTES:start].tobytes(), f"the header of {path.name}")
    header.pop("__metadata__", None)
    return _tensors(header, file, start, path.name)


def _map(path: Path) -> MappedFile:
    try:
        with path.open("rb") as file:
            if len(file.read(_LENGTH_BYTES)) < _LENGTH_BYTES:
                raise CheckpointError(f"{path.name} is too short to be a safetensors file")
            return MappedFile.of(file)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


def _tensors(
    header: Mapping[str, object], file: MappedFile, start: int, where: str
) -> dict[str, RawTensor]:
    data = file.data[start:]
    entries = sorted(
        (_entry(name, Fields(header, where).need(name, MAPPING), where) for name in header),
        key=lambda entry: entry[3:],
    )
    tensors: dict[str, RawTensor] = {}
    expected = 0
    for name, shape, format_, first, end in entries:
        if first != expected or end < first:
            raise CheckpointError(f"{where}: tensor {name} starts at {first}, expected {expected}")
        if end > len(data):
            raise CheckpointError(
                f"{where}: tensor {name} ends at byte {end} of {len(data)}", "the file is truncated"
            )
        if math.prod(shape) * format_.BYTES != end - first:
            raise CheckpointError(
                f"{where}: tensor {name} of shape {list(shape)} and type {format_.NAME}"
                f" has {end - first} bytes"
            )
        tensors[name] = RawTensor(name, shape, format_, data[first:end], file)
        expected = end
    if expected != len(data):
        raise CheckpointError(f"{where}: {len(data) - expected} bytes belong to no tensor")
    return tensors


def _entry(
    name: str, values: Mapping[str, object], where: str
) -> tuple[str, tuple[int, ...], Format, int, int]:
    if not name.isprintable():
        raise CheckpointError(f"{where}: a tensor's name is not printable")
    fields = Fields(values, f"{where}: tensor {name}")
    dtype = fields.need("dtype", TEXT)
    if dtype not in _READABLE:
        fields.fail(
            f"it is stored as {dtype[:40]!r}, which is not implemented",
            "implemented: " + ", ".join(_READABLE),
        )
    offsets = fields.need("data_offsets", INDEXES)
    if len(offsets) != 2:
        fields.fail("data_offsets are not two numbers")
    shape = tuple(fields.need("shape", INDEXES))
    return name, shape, formats_by_name()[dtype], offsets[0], offsets[1]
