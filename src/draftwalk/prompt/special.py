"""Special tokens written in a text are found before the rest of the text is tokenized.

The order is llama.cpp's, because the ids depend on it: the longest token is looked for first, in
every part of the text that no earlier token has taken, from left to right.

A rendered chat template must have its special tokens found, but not those that a user has typed
into a message. So messages are shielded first: a character that no text has (a Unicode
noncharacter) goes into every control token in them, and is taken out when the text between the
special tokens is handed on. A token of one character has no inside; such a character is written as
its number, in digits that no text has either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from draftwalk.errors import CheckpointError
from draftwalk.prompt.vocabulary import Kind

SHIELD = "\ufdd0"
_DIGITS = [chr(code) for code in range(0xFDE0, 0xFDF0)]  # noncharacters too
_MARK = re.compile(f"[{SHIELD}{''.join(_DIGITS)}]")
_SHIELDED = re.compile(f"{SHIELD}(?:[{''.join(_DIGITS)}]{{6}})?")
_KEY = 4  # characters by which tokens are grouped, so that thousands of unused ones cost one look


class SpecialSplitter:
    """Cuts a text into special tokens and the text between them.

    Args:
        tokens: token texts by id.
        kinds: the special tokens: control and unknown ones are found only when asked for, since
            in a user's text they stay text; user-defined ones always are.

    Raises:
        CheckpointError: a special token has a character in it that shields are made of.
    """

    def __init__(self, tokens: Sequence[str], kinds: Mapping[int, Kind]) -> None:
        ordered = sorted(
            (index for index in kinds if tokens[index]),
            key=lambda index: (-len(tokens[index].encode("utf-8", "surrogatepass")), index),
        )
        self._ordered = [(tokens[index], index) for index in ordered]
        self._always = [
            (text, index) for text, index in self._ordered if kinds[index] == Kind.USER_DEFINED
        ]
        self._control = {
            index for index, kind in kinds.items() if kind != Kind.USER_DEFINED and tokens[index]
        }
        for text, index in self._ordered:
            if _MARK.search(text):
                raise CheckpointError(
                    f"special token {index} is {text!r}: it has a noncharacter in it",
                    "no text can hold one; convert the model again",
                )
        letters = [tokens[index] for index in self._control if _is_letter(tokens[index])]
        self._letters = {_numbered(letter): letter for letter in letters}
        self._tokens = tokens
        self._keys = {text[:_KEY] for text, _ in self._ordered}

    def split(self, text: str, special: bool) -> list[str | int]:
        """Parts of a text in order: ids of special tokens, and non-empty text between them.

        Args:
            text: any text; one that is shielded comes out without its shields.
            special: control and unknown tokens are found too.
        """
        parts = self._split(text, special)
        if not special or SHIELD not in text:
            return parts
        bare = (self._bare(part) if isinstance(part, str) else part for part in parts)
        return [part for part in bare if part != ""]

    def encode(
        self, text: str, special: bool, between: Callable[[str], Iterable[int]]
    ) -> list[int]:
        """Ids of a text.

        Args:
            text: see `split`.
            special: see `split`.
            between: gives the ids of a text without special tokens.
        """
        ids: list[int] = []
        for part in self.split(text, special):
            ids.extend((part,) if isinstance(part, int) else between(part))
        return ids

    def shield(self, text: str) -> str:
        """The text of a user, in which `split` will find no control token when it is rendered.

        Shielding one token can uncover another. It ends because no special token has a mark in it:
        every round takes a character away, or parts two neighbours, and brings none together.
        """
        text = text.replace(SHIELD, "\ufffd")
        while True:
            parts = self._split(text, special=True)
            if self._control.isdisjoint(part for part in parts if isinstance(part, int)):
                return text
            text = "".join(self._shielded(part) for part in parts)

    def _shielded(self, part: str | int) -> str:
        if isinstance(part, str):
            return part
        token = self._tokens[part]
        if part not in self._control:
            return token
        return _numbered(token) if _is_letter(token) else token[:1] + SHIELD + token[1:]

    def _bare(self, part: str) -> str:
        return _SHIELDED.sub(lambda found: self._letters.get(found[0], ""), part)

    def _split(self, text: str, special: bool) -> list[str | int]:
        parts: list[str | int] = [text] if text else []
        keys = {key for key in self._keys if key in text}
        for token, index in self._ordered if special else self._always:
            if token[:_KEY] in keys and token in text:
                parts = _split_once(parts, token, index)
        return parts


def _is_letter(token: str) -> bool:
    return len(token) == 1


def _numbered(letter: str) -> str:
    """A character as a shield and the six digits of its number, none of which a token has."""
    return SHIELD + "".join(_DIGITS[int(digit, 16)] for digit in f"{ord(letter):06x}")


def _split_once(parts: list[str | int], token: str, index: int) -> list[str | int]:
    """Takes one special token out of every part that is still text."""
    result: list[str | int] = []
    for part in parts:
        if isinstance(part, int) or token not in part:
            result.append(part)
            continue
        for number, between in enumerate(part.split(token)):
            if number:
                result.append(index)
            if between:
                result.append(between)
    return result
