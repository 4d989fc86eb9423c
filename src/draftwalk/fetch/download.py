"""One file over HTTP: resumed where it stopped, bounded in size, never believed before its sum."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from draftwalk.errors import UserError
from draftwalk.fetch.pip_link import Link

Progress = Callable[[int, int | None], None]
"""Told bytes that are there and bytes in all, where the server says how many."""

_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte
_ATTEMPTS = 4  # that bring nothing new, in a row
_PAUSE = 0.3  # seconds between them


class _InterruptedError(Exception):
    """The connection ended before the file did."""


class _UselessPartError(Exception):
    """What is on disk cannot be continued."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to download.

    Attributes:
        name: for messages.
        sha256: of the whole file.
        most: bytes that are too many, whatever the server says.
    """

    name: str
    sha256: str
    most: int


def download(link: Link, wanted: Wanted, partial: Path, progress: Progress) -> None:
    """Completes `partial`, continuing what an earlier try left there.

    Raises:
        UserError: the server cannot be reached, breaks off again and again (what came stays, to be
            continued), or sends something else than is wanted (nothing stays).
    """
    resumed = partial.exists()
    _complete(link, wanted, partial, progress)
    if _sha256(partial) == wanted.sha256:
        return
    partial.unlink()
    if resumed:  # the part may have been another file's
        _complete(link, wanted, partial, progress)
        if _sha256(partial) == wanted.sha256:
            return
        partial.unlink()
    raise UserError(
        f"{wanted.name} was downloaded, but its SHA-256 is not the one it should have",
        "the registry or a proxy on the way changes it; nothing was kept",
    )


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
            http.client.HTTPException,
        ) as error:
            gained = partial.exists() and partial.stat().st_size > before
            failures = 0 if gained else failures + 1
            reason = str(error) or type(error).__name__
        except urllib.error.HTTPError as error:
            raise UserError(f"{wanted.name}: the server says {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            failures += 1
            reason = str(error.reason)
        if failures >= _ATTEMPTS:
            raise UserError(
                f"{wanted.name} could not be downloaded: {reason}",
                "run the same command again, it goes on where it stopped",
            )
        time.sleep(_PAUSE)


def _continue(link: Link, wanted: Wanted, partial: Path, start: int, progress: Progress) -> None:
    """One request for the bytes from `start`."""
    headers = {"User-Agent": "draftwalk", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(link.url, headers=headers)
    if request.type not in ("http", "https", "file"):
        raise UserError(f"{wanted.name}: addresses of type {request.type!r} are not followed")
    context = link.ssl_context() if request.type == "https" else None
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT, context=context)
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:
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
        total = done + int(length) if length is not None and length.isdecimal() else None
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


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
