"""One file over HTTP: resumed where it stopped, bounded in size, never believed before its sum."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import ssl
import time
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from draftwalk.errors import UserError, in_words
from draftwalk.fetch.link import Link, RefusedError, ask, why_unreached

Progress = Callable[[int, int | None], None]
"""Told bytes that are there and bytes in all, where the server says how many."""

TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})  # worth asking again
PAUSE = 0.3  # seconds before asking again
_CHUNK = 1 << 18
_ATTEMPTS = 4  # that bring nothing new, in a row


def silent(_done: int, _total: int | None) -> None:
    """Shows no progress."""


class _InterruptedError(Exception):
    """The connection ended before the file did."""


class _UselessPartError(Exception):
    """What is on disk cannot be continued."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to download.

    Attributes:
        name: for messages.
        sum: of the whole file, in hexadecimal.
        most: bytes that are too many, whatever the server says.
        kind: of sum; "git" is the SHA-1 that Git names a file's content by.
        size: of the whole file, where it is known.
    """

    name: str
    sum: str
    most: int
    kind: Literal["sha256", "git"] = "sha256"
    size: int | None = None

    @property
    def kind_name(self) -> str:
        """What people call the sum."""
        return {"sha256": "SHA-256", "git": "Git SHA-1"}[self.kind]


def download(link: Link, wanted: Wanted, partial: Path, progress: Progress) -> None:
    """Completes `partial`, continuing what an earlier try left there.

    Raises:
        RefusedError: the server does not give it.
        UserError: the server cannot be reached, breaks off again and again (what came stays, to be
            continued), or sends something else than is wanted (nothing stays).
    """
    resumed = partial.exists()
    _complete(link, wanted, partial, progress)
    if file_sum(partial, wanted.kind) == wanted.sum:
        return
    partial.unlink()
    if resumed:  # the part may have been another file's
        _complete(link, wanted, partial, progress)
        if file_sum(partial, wanted.kind) == wanted.sum:
            return
        partial.unlink()
    raise UserError(
        f"{wanted.name} was downloaded, but its {wanted.kind_name} is not the one it should have",
        "the server or a proxy on the way changes it; nothing was kept",
    )


def file_sum(path: Path, kind: Literal["sha256", "git"]) -> str:
    """A file's sum, in hexadecimal."""
    with path.open("rb") as file:
        if kind == "sha256":
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        while data := file.read(_CHUNK):
            digest.update(data)
        return digest.hexdigest()


def _complete(link: Link, wanted: Wanted, partial: Path, progress: Progress) -> None:
    failures = 0
    while True:
        before = partial.stat().st_size if partial.exists() else 0
        try:
            _continue(link, wanted, partial, before, progress)
            return
        except _UselessPartError:
            partial.unlink()
            failures += 1
            reason = "the server does not continue it"
        except (
            _InterruptedError,
            TimeoutError,
            ConnectionError,
            ssl.SSLError,
            http.client.HTTPException,
        ) as error:
            gained = partial.exists() and partial.stat().st_size > before
            failures = 0 if gained else failures + 1
            reason = in_words(error)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in TRANSIENT:
                code = error.headers.get("X-Error-Code") or ""
                raise RefusedError(wanted.name, error.code, error.reason, code) from None
            failures += 1
            reason = f"the server says {error.code} {error.reason}"
        except urllib.error.URLError as error:
            failures += 1
            reason = why_unreached(error)
        if failures >= _ATTEMPTS:
            raise UserError(
                f"{wanted.name} could not be downloaded: {reason}",
                "run the same command again, it goes on where it stopped",
            )
        time.sleep(PAUSE)


def _continue(link: Link, wanted: Wanted, partial: Path, start: int, progress: Progress) -> None:
    """One request for the bytes from `start`."""
    try:
        response = ask(link, wanted.name, {"Range": f"bytes={start}-"} if start else {})
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:
            error.close()
            if error.headers.get("Content-Range") == f"bytes */{start}":
                return  # it is whole already
            raise _UselessPartError from None
        raise
    with response:
        continued = response.status == 206
        if continued and not _continues(response, start):
            raise _UselessPartError
        length = response.headers.get("Content-Length")
        done = start if continued else 0
        told = done + int(length) if length is not None and length.isdecimal() else None
        total = wanted.size if told is None else told
        if total is not None and total > wanted.most:
            raise UserError(f"{wanted.name}: the server offers {total} bytes, far too many")
        with partial.open("ab" if continued else "wb") as file:
            done = _copy(response, file, done, total, wanted, progress)
    if total is not None and done < total:
        raise _InterruptedError(f"the connection ended at byte {done} of {total}")


def _continues(response: http.client.HTTPResponse, start: int) -> bool:
    """Whether the part that is sent begins where ours ends."""
    given = re.match(r"bytes (\d+)-", response.headers.get("Content-Range") or "")
    return given is not None and int(given[1]) == start


def _copy(
    response: http.client.HTTPResponse,
    file: BinaryIO,
    done: int,
    total: int | None,
    wanted: Wanted,
    progress: Progress,
) -> int:
    progress(done, total)
    while data := response.read(_CHUNK):
        done += len(data)
        if done > wanted.most:
            file.truncate(0)
            raise UserError(f"{wanted.name}: the server sends more than {wanted.most} bytes")
        file.write(data)
        progress(done, total)
    file.flush()
    os.fsync(file.fileno())
    return done
