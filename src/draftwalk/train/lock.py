"""One process at a time works in a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftwalk.errors import UserError, in_words

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Holds a folder, which is made if it is missing; the lock ends with the process at the latest.

    On Windows nothing is locked.

    Raises:
        UserError: another process holds it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("a")
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written to: {in_words(error)}", "name another folder"
        ) from error
    with file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"another process works in {folder}", "wait for its end, or name another folder"
                ) from None
        yield
