"""A file that appears under its name only when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a file beside `path`, which takes its place when all was written.

    Raises:
        OSError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
