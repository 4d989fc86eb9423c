"""Read JSON that somebody else wrote: bounded, one object, no repeated keys."""

from __future__ import annotations

import json
from pathlib import Path

from draftwalk.errors import CheckpointError

_MOST_BYTES = 64 << 20


def read_json_object(path: Path) -> dict[str, object]:
    """The object in a JSON file.

    Raises:
        CheckpointError: the file cannot be read, is too large, or is no JSON object.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if len(text) > _MOST_BYTES:
        raise CheckpointError(f"{path.name} is larger than {_MOST_BYTES} bytes")
    return parse_json_object(text, path.name)


def parse_json_object(text: bytes, where: str) -> dict[str, object]:
    """The object in some JSON text; `where` is for messages."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise CheckpointError(f"{where} is nested too deeply") from error
    except ValueError as error:  # covers bad UTF-8, numbers of thousands of digits, repeated keys
        reason = str(error).splitlines()[0][:120]
        raise CheckpointError(f"{where} is not valid JSON: {reason}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{where} is not a JSON object")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return table
