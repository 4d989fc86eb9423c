"""Models of the Hugging Face hub, in the cache that all programs share.

What is fetched is the newest commit's, resumed where it stopped, and proved by the sum that the hub
tells. Without network what the cache has is used.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from draftwalk.errors import UserError, in_words
from draftwalk.fetch.download import Progress, Wanted, download, silent
from draftwalk.fetch.hub.cache import RepoCache
from draftwalk.fetch.hub.card import NO_CARD, Card, read_card
from draftwalk.fetch.hub.choice import (
    CARD,
    CONFIG,
    INDEX,
    MASK_ROW,
    MASK_ROW_UNREAD,
    choose,
    shards,
)
from draftwalk.fetch.hub.listing import Listed, Listing, UnreachableError, list_files
from draftwalk.fetch.hub.name import HubName, is_hub_name, parse
from draftwalk.fetch.hub.settings import HubSettings, user_settings
from draftwalk.fetch.link import Link, RefusedError
from draftwalk.fetch.lock import alone

__all__ = [
    "NO_CARD",
    "Card",
    "Glance",
    "Hub",
    "HubName",
    "HubSettings",
    "OnHub",
    "is_hub_name",
    "parse",
    "user_settings",
]

_DRAFTER_KEYS = {"dflash_config", "speculators_model_type"}  # of config.json


@dataclass(frozen=True, slots=True)
class OnHub:
    """A model that was fetched.

    Attributes:
        path: the GGUF file, or the folder.
        repo: owner/name.
        card: what its card says.
    """

    path: Path
    repo: str
    card: Card


@dataclass(frozen=True, slots=True)
class Glance:
    """What a model's small files say.

    Attributes:
        card: its card.
        is_drafter: whether its configuration is a drafter's.
    """

    card: Card
    is_drafter: bool


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub as the user has set it up.

    Attributes:
        settings: where it is, and where its files are kept.
        progress: told how downloads go.
    """

    settings: HubSettings
    progress: Progress = silent

    def fetch(self, name: HubName) -> OnHub:
        """A model, downloaded as far as it is not there.

        Raises:
            UserError: the hub does not have it, does not give it, or cannot be reached.
        """
        kept = RepoCache(self.settings.cache, name.repo)
        with _kept_in(kept):
            listing = self._listing(kept)
            commit, gguf = (
                _choose_cached(name, kept) if listing is None else self._get(name, kept, listing)
            )
            folder = kept.snapshot(commit)
            card = read_card(folder / CARD)
        return OnHub(folder if gguf is None else folder / gguf, name.repo, card)

    def look(self, repo: str) -> Glance:
        """What a model's small files say, without its weights.

        Raises:
            UserError: as `fetch` does.
        """
        kept = RepoCache(self.settings.cache, repo)
        with _kept_in(kept):
            listing = self._listing(kept)
            commit = kept.commit() if listing is None else listing.commit
            if listing is not None:
                small = [file for file in (CARD, CONFIG) if file in listing.files]
                self._have(kept, listing, small, silent)
            if commit is None:
                return Glance(NO_CARD, False)
            folder = kept.snapshot(commit)
            return Glance(read_card(folder / CARD), _is_drafter(folder / CONFIG))

    def _listing(self, kept: RepoCache) -> Listing | None:
        """What the hub says; `None` where the cache has to do."""
        if self.settings.offline:
            return None
        try:
            return list_files(self.settings, kept.repo)
        except UnreachableError as error:
            if kept.commit() is None:
                raise
            warnings.warn(f"{error.what}; what its cache has is used", stacklevel=3)
            return None
        except RefusedError as error:
            raise self._explained(error, kept.repo) from None

    def _get(self, name: HubName, kept: RepoCache, listing: Listing) -> tuple[str, str | None]:
        """Fetches what is wanted; the commit, and the GGUF file if it is one."""
        choice = choose(name, listing.files)
        if choice.gguf is None and MASK_ROW in listing.files:
            warnings.warn(f"{name.repo}: {MASK_ROW_UNREAD}", stacklevel=4)
        files = [*choice.files]
        if choice.is_sharded:
            self._have(kept, listing, [INDEX], silent)
            files += shards(kept.snapshot(listing.commit) / INDEX, name)
        self._have(kept, listing, files, self.progress)
        kept.remember(listing.commit)
        return listing.commit, choice.gguf

    def _have(
        self, kept: RepoCache, listing: Listing, files: Iterable[str], progress: Progress
    ) -> None:
        """Fetches the files that are not there; their progress is one."""
        every = {file: listing.file(file) for file in files}
        missing = {
            file: listed
            for file, listed in every.items()
            if not kept.has(listing.commit, file, listed.size)
        }
        total, done = sum(listed.size for listed in missing.values()), 0
        for file, listed in missing.items():
            try:
                self._fetch(kept, listing.commit, file, listed, _shifted(progress, done, total))
            except RefusedError as error:
                raise self._explained(error, kept.repo) from None
            done += listed.size

    def _fetch(
        self, kept: RepoCache, commit: str, file: str, listed: Listed, progress: Progress
    ) -> None:
        blob = kept.blob(listed.sum)
        with alone(kept.lock(listed.sum)):
            if not blob.is_file() or blob.stat().st_size != listed.size:
                blob.parent.mkdir(parents=True, exist_ok=True)
                url = f"{self.settings.endpoint}/{quote(kept.repo)}/resolve/{commit}/{quote(file)}"
                wanted = Wanted(
                    f"{file} of {kept.repo}", listed.sum, listed.size, listed.kind, listed.size
                )
                partial = blob.with_name(f"{blob.name}.incomplete")
                download(Link(url, token=self.settings.token), wanted, partial, progress)
                partial.replace(blob)
            kept.show(commit, file, listed.sum)

    def _explained(self, error: RefusedError, repo: str) -> UserError:
        """What to do about an answer."""
        if error.status == 403 or error.code == "GatedRepo":
            return UserError(
                f"{repo} is given only to those whom its owners let have it",
                "ask for it on its page, then `hf auth login` or set HF_TOKEN",
            )
        if error.status == 401 and self.settings.token is not None:
            return UserError(
                f"the hub does not accept the token for {repo}",
                "`hf auth login` with a new one, or set HF_TOKEN",
            )
        if error.status in (401, 404) and error.code != "EntryNotFound":
            return UserError(
                f"the hub has no model {repo}, or not for everybody",
                "check its name; for a private one `hf auth login` or set HF_TOKEN",
            )
        return error


def _choose_cached(name: HubName, kept: RepoCache) -> tuple[str, str | None]:
    """Chooses among what the cache has; the commit, and the GGUF file if it is one."""
    commit = kept.commit()
    if commit is None:
        raise UserError(
            f"{name} is to be used offline, but is not in the hub's cache {kept.cache}",
            "fetch it once without --offline",
        )
    files = kept.files(commit)
    try:
        choice = choose(name, files)
        if choice.is_sharded:
            missing = set(shards(kept.snapshot(commit) / INDEX, name)) - set(files)
            if missing:
                raise UserError(f"{name.repo} lacks {min(missing)}")
    except UserError as error:
        raise UserError(
            f"{error.what}, as far as the hub's cache goes", "fetch it once without --offline"
        ) from None
    return commit, choice.gguf


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    """Tells one file's progress as that of all of them."""

    def tell(done: int, _total: int | None) -> None:
        progress(before + done, total)

    return tell


def _is_drafter(config: Path) -> bool:
    """Whether a config.json is a drafter's."""
    try:
        told = json.loads(config.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(told, dict) and not _DRAFTER_KEYS.isdisjoint(told)


@contextmanager
def _kept_in(kept: RepoCache) -> Iterator[None]:
    """Turns what a file system refuses into an error that names the cache."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{kept.repo} cannot be kept in {kept.cache}: {in_words(error)}",
            "HF_HOME says where the hub's cache is",
        ) from error
