"""Prompts to train on: JSON lines of turns, in an order that mixes all files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftwalk.errors import PromptError

SEED_BITS = 53  # what a reader of JSON who has only doubles keeps


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a user says, turn by turn; the answers in between are the target's.

    Attributes:
        key: its identifier in the file, or a digest of its turns.
        source: the file it comes from.
        turns: the user's messages, at least one.
    """

    key: str
    source: str
    turns: tuple[str, ...]

    @property
    def digest(self) -> int:
        """256 bits of the turns alone: whatever is drawn for a prompt is drawn from here."""
        text = json.dumps(self.turns, ensure_ascii=False).encode()
        return int.from_bytes(hashlib.sha256(text).digest(), "big")

    @property
    def seed(self) -> int:
        """The seed of its sampled answers, by which the text is known again."""
        return self.digest % (1 << SEED_BITS)

    def sampled(self, share: float) -> bool:
        """Whether it is one of the `share` that are answered by sampling."""
        return (self.digest >> SEED_BITS) % 1_000_000 < share * 1_000_000

    def one_of(self, count: int) -> bool:
        """Whether it is drawn, as one of `count` is: not from the bits of the other draws alone."""
        return (self.digest >> 128) % count == 0


def read_conversations(files: Sequence[Path]) -> list[Conversation]:
    """All conversations of the files, each text once, in an order drawn from their contents.

    Lines are JSON objects with `turns` (the user's messages) or `prompt` (one message), and maybe
    an `id`.

    Raises:
        PromptError: a file that cannot be read or has no prompts, or a line that is none of these.
    """
    found: dict[int, Conversation] = {}
    for file in files:
        read = _read(file)
        if not read:
            raise PromptError(f"{file} has no prompts", "one JSON object a line is needed")
        for conversation in read:
            found.setdefault(conversation.digest, conversation)
    return [found[digest] for digest in sorted(found)]


def _read(file: Path) -> list[Conversation]:
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{file} cannot be read: {error}") from error
    return [_parse(line, file, number) for number, line in enumerate(lines, 1) if line.strip()]


def _parse(line: str, file: Path, number: int) -> Conversation:
    where = f"{file} line {number}"
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise PromptError(f"{where} is no JSON: {error}") from None
    match entry:
        case {"turns": [*turns]} if turns and all(isinstance(turn, str) for turn in turns):
            said = tuple(turns)
        case {"prompt": str(text)}:
            said = (text,)
        case _:
            raise PromptError(f"{where} has neither turns nor prompt", "one of them is needed")
    try:
        "".join(said).encode()
    except UnicodeEncodeError:
        raise PromptError(
            f"{where} has a surrogate without its other half", "that is no text: leave it out"
        ) from None
    key = entry.get("id")
    return Conversation(str(key) if key is not None else f"{number}", file.stem, said)
