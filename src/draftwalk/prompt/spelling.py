"""The exact bytes of every token, whatever alphabet its vocabulary is written in."""

from __future__ import annotations

from functools import cached_property

from draftwalk.errors import PromptError
from draftwalk.prompt.byte_level import byte_alphabet
from draftwalk.prompt.vocabulary import BYTE_TOKEN, Kind, Vocabulary


class Spelling:
    """Ids to bytes.

    Args:
        vocabulary: token texts and kinds.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def token_bytes(self, index: int, special: bool) -> bytes:
        """The bytes of one token.

        Args:
            index: its id. An id past the vocabulary is a padding row of the embedding: no bytes.
            special: control and unknown tokens are written too.
        """
        if index < 0:
            raise PromptError(f"{index} is no token id")
        if index >= len(self.vocabulary.tokens):
            return b""
        text, kind = self.vocabulary.tokens[index], self.vocabulary.kinds[index]
        if kind in (Kind.CONTROL, Kind.UNKNOWN):
            return _utf8(text) if special else b""
        if kind == Kind.USER_DEFINED:
            return _utf8(text)
        if kind == Kind.UNUSED:
            return b""  # a row of the embedding that nothing was trained for
        if kind == Kind.BYTE:
            match = BYTE_TOKEN.fullmatch(text)
            assert match, "checked when the vocabulary was read"
            return bytes.fromhex(match.group(1))
        if not self.vocabulary.byte_level:
            return _utf8(text.replace("▁", " "))
        try:
            return text.translate(self._bytes).encode("latin-1")
        except UnicodeEncodeError:
            return _utf8(text)  # a token that was added to the vocabulary as plain text

    @cached_property
    def _bytes(self) -> dict[int, int | str]:
        """For `str.translate`: letters of the byte alphabet to U+0000..U+00FF, others out of it."""
        table: dict[int, int | str] = dict.fromkeys(range(256), "\uffff")
        return table | {ord(letter): byte for byte, letter in byte_alphabet().items()}


def _utf8(text: str) -> bytes:
    """The text's bytes; those that were no UTF-8 in the file come back as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
