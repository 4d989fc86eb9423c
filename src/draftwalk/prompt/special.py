"""Special tokens written in a text are found before the rest of the text is tokenized.

The order is llama.cpp's, because the ids depend on it: the longest token is looked for first, in
every part of the text that no earlier token has taken, from left to right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from draftwalk.prompt.vocabulary import Kind

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
        self._keys = {text[:_KEY] for text, _ in self._ordered}

    def split(self, text: str, special: bool) -> list[str | int]:
        """Parts of a text in order: ids of special tokens, and non-empty text between them."""
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
