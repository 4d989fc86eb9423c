"""What users write to name a model of the hub: owner/name, and what of it they want."""

from __future__ import annotations

import re
from dataclasses import dataclass

from draftwalk.errors import UserError

_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_REPO = re.compile(rf"{_PART}/{_PART}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")
_LONGEST_REPO = 96
_FORM = "the form is owner/name, or owner/name:quant as in :Q8_0, or owner/name:file.gguf"


@dataclass(frozen=True, slots=True)
class HubName:
    """A model of the hub.

    Attributes:
        repo: owner/name.
        tag: the quantisation that is wanted, or the path of a GGUF file; `None` leaves it open.
    """

    repo: str
    tag: str | None = None

    def __str__(self) -> str:
        return self.repo if self.tag is None else f"{self.repo}:{self.tag}"


def parse(text: str) -> HubName:
    """Reads owner/name or owner/name:tag.

    Raises:
        UserError: it is neither.
    """
    repo, colon, tag = text.partition(":")
    if not is_repo(repo) or (colon and (_TAG.fullmatch(tag) is None or ".." in tag)):
        shown = text if len(text) <= 2 * _LONGEST_REPO else f"{text[:_LONGEST_REPO]}..."
        raise UserError(f"{shown!r} names no model of the hub", _FORM)
    return HubName(repo, tag if colon else None)


def is_repo(text: str) -> bool:
    """Whether the hub could have a model of that name."""
    return (
        len(text) <= _LONGEST_REPO
        and _REPO.fullmatch(text) is not None
        and "--" not in text
        and ".." not in text
        and not text.endswith(".git")
    )


def is_hub_name(text: str) -> bool:
    """Whether a text has the form of a name of the hub."""
    try:
        parse(text)
    except UserError:
        return False
    return True
