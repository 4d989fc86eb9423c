"""A file that appears under its name only when it is whole."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a file beside `path`, which takes its place when all was written.

    Raises:
        OSError: it cannot be written.
    """
    remove_leftovers(path)
    beside = partial_beside(path)
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def partial_beside(path: Path) -> Path:
    """Where this process writes what is to become `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def remove_leftovers(path: Path) -> None:
    """Removes what processes that were killed left of `path` half written."""
    leftover = re.compile(rf"\.+{re.escape(path.name)}(?:\.(\d+)\.partial)+")
    try:
        neighbours = [*path.parent.iterdir()]
    except OSError:  # a folder that is not there is told when something is written to it
        return
    for neighbour in neighbours:
        found = leftover.fullmatch(neighbour.name)
        if found is not None and not _is_running(int(found[1])):
            with suppress(OSError):
                remove(neighbour)


def remove(path: Path) -> None:
    """Removes a file or folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if sys.platform == "win32":  # where asking would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return True
