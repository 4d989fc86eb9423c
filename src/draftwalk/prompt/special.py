"""Special tokens written in a text are found before the rest of the text is tokenized.

The order is llama.cpp's, because the ids depend on it: the longest token is looked for first, in
every part of the text that no earlier token has taken, from left to right.

A rendered chat template must have its special tokens found, but not those that a user has typed
into a message. So messages are shielded first: a character that no text has (a Unicode
noncharacter) goes into every control token in them, and is taken out when the text between the
special tokens is handed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from draftwalk.prompt.vocabulary import Kind

SHIELD = "\ufdd0"
_KEY = 4  # characters by which tokens are grouped, so that thousands of unused ones cost one look


class SpecialSplitter:
    """Cuts a text into special tokens and the text between them.

    Args:
        tokens: token texts by id.
        kinds: the special tokens: control and unknown ones are found only when asked for, since
            in a user's text they stay text; user-defined ones always are.
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
        bare = (part.replace(SHIELD, "") if isinstance(part, str) else part for part in parts)
        return [part for part in bare if part != ""]

    def shield(self, text: str) -> str:
        """The text of a user, in which `split` will find no control token when it is rendered."""
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
        return token[:1] + SHIELD + token[1:] if part in self._control else token

    def _split(self, text: str, special: bool) -> list[str | int]:
        parts: list[str | int] = [text] if text else []
        keys = {key for key in self._keys if key in text}
        for token, index in self._ordered if special else self._always:
            if token[:_KEY] in keys and token in text:
                parts = _split_once(parts, token, index)
        return parts


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
