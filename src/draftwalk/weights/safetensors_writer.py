"""Write one safetensors file: a JSON header, then the bytes of the tensors without gaps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from draftwalk.weights.planned import PlannedTensor, planned
from draftwalk.weights.tensor import RawTensor
from draftwalk.weights.whole_file import whole_file

WRITABLE = ("F32", "F16", "BF16", "I8", "I16", "I32", "I64", "BOOL")
_ALIGNMENT = 8
# What readers of Hugging Face's libraries ask for before they take a file.
_METADATA = {"format": "pt"}


def _nothing(done: int) -> None:
    """Nobody asked."""


def write_safetensors(
    path: Path,
    tensors: Sequence[RawTensor | PlannedTensor],
    progress: Callable[[int], None] = _nothing,
) -> None:
    """Writes a file beside its name and renames it, so that it appears only when it is whole.

    Args:
        path: the file to write; an existing one is replaced.
        tensors: in formats of one value a block; their names are written as they are.
        progress: told the bytes of tensors written so far.
    """
    # The widest first, so that every tensor begins at a multiple of its width.
    plans = sorted(map(planned, tensors), key=lambda one: (-one.format.BYTES, one.name))
    assert all(one.format.NAME in WRITABLE for one in plans), "safetensors has no such type"
    with whole_file(path) as file:
        file.write(_header(plans))
        done = 0
        for one in plans:
            raw = one.made()
            file.write(np.ascontiguousarray(raw.data).data)
            raw.forget()
            done += one.bytes
            progress(done)


def _header(plans: Sequence[PlannedTensor]) -> bytes:
    table: dict[str, object] = {"__metadata__": _METADATA}
    offset = 0
    for one in plans:
        assert one.name not in table, f"two tensors {one.name}"
        table[one.name] = {
            "dtype": one.format.NAME,
            "shape": list(one.shape),
            "data_offsets": [offset, offset + one.bytes],
        }
        offset += one.bytes
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
