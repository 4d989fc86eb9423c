"""One process at a time fetches a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Holds a lock file, whose folder is made; on Windows checksums have to do."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
