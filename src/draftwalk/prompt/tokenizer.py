"""Text to token ids and back, for every kind of vocabulary: the rest of the package sees only this.

Ids equal llama.cpp's for a GGUF vocabulary and the tokenizers library's for a `tokenizer.json`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from draftwalk.prompt.spelling import Spelling


class Encoder(Protocol):
    """Text to ids, in one of several ways."""

    def encode(self, text: str, special: bool) -> list[int]:
        """Ids of a text, without anything added at its ends."""
        ...

    def shield(self, text: str) -> str:
        """The text, so marked that no special token is found in it."""
        ...


@dataclass(frozen=True)
class Tokenizer:
    """Text to token ids and back.

    Args:
        encoder: text to ids.
        spelling: ids to bytes.
        bos_id: the token that begins a text; None where there is none.
        eos_id: the token that ends a text; None where there is none.
        add_bos: a prompt begins with the BOS token.
        stop_ids: every id that ends a generation by the model's own convention.
        strips_leading_space: `encode` puts a space before a text, and `decode` takes it away.
        chat_template: source of the file's chat template; None where it has none.
    """

    encoder: Encoder
    spelling: Spelling
    bos_id: int | None
    eos_id: int | None
    add_bos: bool
    stop_ids: frozenset[int]
    strips_leading_space: bool
    chat_template: str | None

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens; a model's embedding may have more rows, as padding."""
        return len(self.spelling.vocabulary.tokens)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Ids of a text, without BOS.

        Args:
            text: any text; half a surrogate pair counts as U+FFFD.
            special: special tokens written in the text are recognised, as a rendered chat template
                needs it. Otherwise they stay text, whatever a user writes.
        """
        return self.encoder.encode(_whole_characters(text), special)

    def shield(self, text: str) -> str:
        """A user's text, marked so that special tokens typed in it stay text when it is rendered.

        Only `encode` with `special=True` understands the marks, and it takes them out again.
        """
        return self.encoder.shield(_whole_characters(text))

    def encode_prompt(self, text: str, special: bool = False) -> list[int]:
        """Ids of a prompt, with BOS in front if the file wants it and the text does not have it."""
        ids = self.encode(text, special)
        if self.add_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            return [self.bos_id, *ids]
        return ids

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of ids; special tokens are shown only when asked for."""
        data = b"".join(self.token_bytes(index, special) for index in ids)
        if self.strips_leading_space and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", errors="replace")

    def token_bytes(self, index: int, special: bool = False) -> bytes:
        """The bytes of one token; nothing for special tokens unless asked for, and for padding."""
        if index in self.stop_ids and not special:
            return b""
        return self.spelling.token_bytes(index, special)

    @property
    def bos_text(self) -> str:
        """How the BOS token is written, for chat templates; empty where there is none."""
        return self._text(self.bos_id)

    @property
    def eos_text(self) -> str:
        """How the EOS token is written, for chat templates; empty where there is none."""
        return self._text(self.eos_id)

    def _text(self, index: int | None) -> str:
        return "" if index is None else self.decode_one(index)

    def decode_one(self, index: int) -> str:
        """The text of one token, special ones included, for display."""
        return self.token_bytes(index, special=True).decode("utf-8", errors="replace")


def _whole_characters(text: str) -> str:
    """Joins surrogate pairs and replaces half ones, which no encoding of a text can carry."""
    if text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
