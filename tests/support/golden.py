"""Hashes of results that must be the same bits on every machine.

A test names its result; one that is not recorded yet fails, and says the line to add to
tests/native/golden.json.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILE = Path(__file__).parent.parent / "native" / "golden.json"


def digest(array: NDArray[Any]) -> str:
    """The first 16 digits of a hash of the bytes; all NaNs count as one."""
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind == "f":
        plain = np.where(np.isnan(plain), np.array(np.nan, plain.dtype), plain)
    return hashlib.sha256(plain.tobytes()).hexdigest()[:16]


def check_golden(name: str, array: NDArray[Any]) -> None:
    """Whether the array is what was recorded under `name`."""
    recorded = json.loads(FILE.read_text())
    found = digest(array)
    assert recorded.get(name) == found, f'golden.json should say "{name}": "{found}"'
