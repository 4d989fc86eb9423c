"""A file or folder that appears under its name only when it is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftwalk.errors import UserError, in_words
from draftwalk.weights.whole_file import partial_beside, remove, remove_leftovers

# What a folder may hold that is replaced: nothing that was not written by a converter.
_OURS = {"config.json", "model.safetensors"}


@contextmanager
def replacing(destination: Path, force: bool) -> Iterator[Path]:
    """Yields a path beside `destination` to write to; renamed at the end, removed on any error.

    Args:
        destination: a path that is free, or with `force` one that may be replaced.
        force: replace what is there.

    Raises:
        UserError: something is there, or it cannot be written.
    """
    place = Path.cwd() / destination
    check_free(destination, force)
    beside = partial_beside(place)
    try:
        remove_leftovers(place)
        remove(beside)  # of a process that had this number before
        yield beside
        check_free(destination, force)  # something may have come there meanwhile
        _move(beside, place)
    except OSError as error:
        raise UserError(f"{destination} cannot be written: {in_words(error)}") from error
    finally:
        remove(beside)


def check_free(asked: Path, force: bool) -> None:
    """Checks that a path is free, or with `force` that it may be replaced.

    Raises:
        UserError: it is not.
    """
    place = Path.cwd() / asked
    if not place.name:
        raise UserError(f"{asked} is no place to write to")
    if not place.parent.is_dir():
        raise UserError(f"there is no folder {place.parent}", "make it first")
    if not os.path.lexists(place) or _is_empty_folder(place):
        return
    if not force:
        raise UserError(f"{asked} exists", "--force replaces it")
    if not (place.is_symlink() or place.is_file() or place.is_dir()):
        raise UserError(f"{asked} is no regular file, so it is not replaced", "name another place")
    if place.is_dir() and not place.is_symlink():
        others = sorted(entry.name for entry in place.iterdir() if entry.name not in _OURS)
        if others:
            raise UserError(
                f"{asked} holds {others[0]}, so it is not replaced", "name another folder"
            )


def _is_empty_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink() and not any(place.iterdir())


def _move(beside: Path, place: Path) -> None:
    """A file replaces a file at once; a folder has to move the old one out of the way first."""
    if not place.is_dir() or place.is_symlink() or (beside.is_dir() and _is_empty_folder(place)):
        if beside.is_dir() and os.path.lexists(place) and not place.is_dir():
            place.unlink()  # a file, or a link, where a folder shall be
        beside.replace(place)
        return
    old = place.with_name(f".{place.name}.{os.getpid()}.old")
    place.rename(old)
    try:
        beside.rename(place)
    except OSError:
        old.rename(place)
        raise
    shutil.rmtree(old)
