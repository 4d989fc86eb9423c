"""What the hub says about a model: its newest commit, its files, and their sums."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from draftwalk.errors import UserError, in_words
from draftwalk.fetch.download import PAUSE, TRANSIENT
from draftwalk.fetch.hub.settings import HubSettings
from draftwalk.fetch.link import Link, RefusedError, ask, why_unreached

_ATTEMPTS = 2
_TIMEOUT = 10.0  # seconds without a byte, after which the cache has to do
_LARGEST = 64 << 20  # bytes of an answer
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SUMS = {"sha256": re.compile(r"[0-9a-f]{64}"), "git": _COMMIT}
_UNSAFE = re.compile(r'[\x00-\x1f\\:*?"<>|]')


class UnreachableError(UserError):
    """The hub does not answer; what is in the cache may do."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a model: its length, and its sum as `download.Wanted` has it."""

    size: int
    sum: str
    kind: Literal["sha256", "git"]


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a model's newest commit.

    Attributes:
        repo: owner/name.
        commit: its SHA-1.
        files: what the hub says of each, by path; paths that would lead elsewhere are left out.
    """

    repo: str
    commit: str
    files: Mapping[str, Mapping[str, object]]

    def file(self, path: str) -> Listed:
        """A file's length and sum.

        Raises:
            UserError: it is not listed, or without them.
        """
        if path not in self.files:
            raise UserError(f"{self.repo} lists no {path}", "its upload is incomplete")
        told = self.files[path]
        large = told.get("lfs")
        size = told.get("size")
        if isinstance(large, dict):
            found, kind, size = large.get("sha256"), "sha256", large.get("size", size)
        else:
            found, kind = told.get("blobId"), "git"
        is_size = isinstance(size, int) and not isinstance(size, bool) and size >= 0
        if not is_size or not isinstance(found, str) or not _SUMS[kind].fullmatch(found):
            raise UserError(f"the hub does not say the size and sum of {path} of {self.repo}")
        assert isinstance(size, int)
        return Listed(size, found, "sha256" if kind == "sha256" else "git")


def list_files(settings: HubSettings, repo: str) -> Listing:
    """Asks the hub.

    Raises:
        UnreachableError: it does not answer.
        RefusedError: it does not tell.
        UserError: what it tells is not understood.
    """
    if not settings.endpoint.startswith(("http://", "https://")):
        raise UserError(
            f"{settings.endpoint[:80]!r} is no address of a hub",
            "HF_ENDPOINT must be http or https",
        )
    link = Link(f"{settings.endpoint}/api/models/{quote(repo)}?blobs=true", token=settings.token)
    told = _understood(_ask(link, repo), repo)
    commit, siblings = told.get("sha"), told.get("siblings")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise _strange(repo)
    if not isinstance(siblings, list):
        raise _strange(repo)
    files: dict[str, Mapping[str, object]] = {}
    for one in siblings:
        path = one.get("rfilename") if isinstance(one, dict) else None
        if not isinstance(path, str):
            raise _strange(repo)
        if _is_safe(path):
            files[path] = one
    return Listing(repo, commit, files)


def _is_safe(path: str) -> bool:
    """Whether a path stays inside the folder it is put into, on every system."""
    parts = path.split("/")
    return not _UNSAFE.search(path) and all(part.strip(". ") for part in parts)


def _understood(answer: bytes, repo: str) -> dict[str, object]:
    try:
        told = json.loads(answer)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise _strange(repo)
    return told


def _strange(repo: str) -> UserError:
    return UserError(
        f"what the hub says about {repo} is not understood", "is HF_ENDPOINT the address of a hub?"
    )


def _ask(link: Link, repo: str) -> bytes:
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(PAUSE)
        try:
            with ask(link, repo, {}, _TIMEOUT) as response:
                answer = response.read(_LARGEST + 1)
            if len(answer) > _LARGEST:
                raise _strange(repo)
            return answer
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in TRANSIENT:
                code = error.headers.get("X-Error-Code") or ""
                raise RefusedError(repo, error.code, error.reason, code) from None
            reason = f"it says {error.code} {error.reason}"
        except urllib.error.URLError as error:
            reason = why_unreached(error)
        except (OSError, http.client.HTTPException) as error:
            reason = in_words(error)
    raise UnreachableError(f"the hub cannot be asked for {repo}: {reason}", "is there a network?")
