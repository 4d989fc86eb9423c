"""What a model's card says about other models: README.md begins with a block of YAML.

`base_model` names what a model was made from, and so a drafter's target. A target may name its
drafter as `dflash` or `drafter`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from draftwalk.fetch.hub.name import is_hub_name, is_repo

_BASE = "base_model"
_DRAFTERS = ("dflash", "drafter")
_LARGEST = 4 << 20  # bytes; cards are text for people
_BLOCK = re.compile(r"\s*---[ \t]*\r?\n(.*?\n)---", re.DOTALL)
# Only these keys' lines are parsed: other blocks hold tables of results that take seconds.
_LINES = re.compile(
    rf"^(?:{'|'.join((_BASE, *_DRAFTERS))})[ \t]*:.*\n(?:[ \t-].*\n)*", re.MULTILINE
)
_MOST_PARSED = 4096  # characters


@dataclass(frozen=True, slots=True)
class Card:
    """Models that a card names.

    Attributes:
        base_models: what this one was made from, as owner/name.
        drafters: what drafts for it, as owner/name or owner/name:tag.
    """

    base_models: tuple[str, ...] = ()
    drafters: tuple[str, ...] = ()


NO_CARD = Card()


def read_card(path: Path) -> Card:
    """Reads a card; one that is missing or cannot be read says nothing."""
    from huggingface_hub import RepoCard

    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST).decode("utf-8-sig", errors="replace")
        lines = _wanted_lines(text)
        told = RepoCard(f"---\n{lines}---\n").data if lines else None
    except Exception:  # whatever YAML there is: the card is a courtesy, the model is not at fault
        return NO_CARD
    if told is None:
        return NO_CARD
    bases = (text for text in _texts(told.get(_BASE)) if is_repo(text))
    drafters = (text for key in _DRAFTERS for text in _texts(told.get(key)) if is_hub_name(text))
    return Card(_once(bases), _once(drafters))


def _wanted_lines(text: str) -> str:
    """Of a card's block, the lines of the keys that are read here."""
    block = _BLOCK.match(text)
    lines = "" if block is None else "".join(_LINES.findall(block[1].replace("\r\n", "\n")))
    return lines if len(lines) <= _MOST_PARSED else ""


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
