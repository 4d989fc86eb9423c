"""Standard streams that are closed, full, or read by nobody any more."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

from draftwalk.errors import UserError


class StdoutError(UserError):
    """The answer cannot be written: no other answer can be, either."""


def open_closed() -> None:
    """Puts something in the place of standard streams that are closed.

    No file that is opened later then gets their numbers, where what libraries print would go into
    it. stdin is empty and stderr swallows everything; writing to stdout fails, as it must.
    """
    found: tuple[TextIO | None, ...] = (sys.stdin, sys.stdout, sys.stderr)
    for number, stream in enumerate(found):
        if stream is None:
            _fill(number, os.O_WRONLY if number == 2 else os.O_RDONLY)
    if found[0] is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if found[1] is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if found[2] is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _fill(number: int, mode: int) -> None:
    """Opens the null device under a number that is free."""
    opened = os.open(os.devnull, mode)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def write(text: str) -> None:
    """Writes to stdout at once.

    Raises:
        StdoutError: it cannot be written to.
        BrokenPipeError: whoever read it has enough.
    """
    with writing():
        sys.stdout.write(text)
        sys.stdout.flush()


def write_json(found: Mapping[str, object]) -> None:
    """Writes an object as a line; characters beyond ASCII as they are only where stdout has all."""
    text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    if not _is_utf8(sys.stdout.encoding) or not _is_whole(text):
        text = json.dumps(found, allow_nan=False)
    write(f"{text}\n")


@contextmanager
def writing() -> Iterator[None]:
    """Something is written to stdout; see `write`."""
    try:
        yield
    except BrokenPipeError:
        discard(sys.stdout)
        raise
    except OSError as error:
        discard(sys.stdout)
        raise StdoutError(f"stdout cannot be written to: {error.strerror or error}") from None


def say(text: str) -> None:
    """A line for people: all but the answer itself goes to stderr, where it can."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """What is still to be written to a stream goes nowhere; flushing it at exit would fail."""
    with suppress(OSError):  # one that is no file has nothing to flush
        number = stream.fileno()
        opened = os.open(os.devnull, os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "utf-8"


def _is_whole(text: str) -> bool:
    """Whether UTF-8 can carry the text: names of files may have bytes that are no characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
