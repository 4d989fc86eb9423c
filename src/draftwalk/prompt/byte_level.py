"""Byte-level BPE: bytes are written as 256 printable characters, words are merged by rank.

The merging is the tokenizers library's. Bytes that a vocabulary has no token for (SmolLM2 lacks
some control characters) still stand between their neighbours while words are merged, and only
then drop out; so they get ids past the vocabulary's end here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer as Library
from tokenizers.models import BPE
from tokenizers.normalizers import NFC

from draftwalk.errors import CheckpointError
from draftwalk.prompt.panics import library_failures, not_encoded
from draftwalk.prompt.pre_tokenizers import PreTokenizer
from draftwalk.prompt.special import SpecialSplitter


def byte_alphabet() -> dict[int, str]:
    """The character that stands for each byte: itself where printable, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    return letters | {byte: chr(256 + number) for number, byte in enumerate(others)}


class ByteLevelEncoder:
    """Text to ids by byte-level BPE.

    Args:
        ids: token texts and their ids.
        size: number of tokens.
        merges: pairs to merge, best first, each as two texts with a space between.
        words: how a text is cut into words.
        splitter: finds special tokens.
        composes: the text between special tokens is composed first (Unicode's form NFC).
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        size: int,
        merges: Sequence[str],
        words: PreTokenizer,
        splitter: SpecialSplitter,
        composes: bool = False,
    ) -> None:
        self._size = size
        self._splitter = splitter
        texts = unicode_only(ids)
        missing = [letter for letter in byte_alphabet().values() if letter not in texts]
        texts |= {letter: size + number for number, letter in enumerate(missing)}
        self._library = Library(bpe_model(texts, merges, words.whole_words))
        self._library.pre_tokenizer = words.steps()
        if composes:
            self._library.normalizer = NFC()

    def shield(self, text: str) -> str:
        """See `Tokenizer.shield`."""
        return self._splitter.shield(text)

    def encode(self, text: str, special: bool) -> list[int]:
        """Ids of a text; see `Tokenizer.encode`."""
        return self._splitter.encode(text, special, self._words)

    def _words(self, text: str) -> list[int]:
        with library_failures(not_encoded):
            found = self._library.encode(text, add_special_tokens=False).ids
        return [index for index in found if index < self._size]


def bpe_model(
    texts: dict[str, int],
    merges: Sequence[str],
    whole_words: bool = False,
    byte_fallback: bool = False,
) -> BPE:
    """The library's model; of two equal merges the first one counts."""
    halves = (merge.partition(" ") for merge in merges)
    pairs = dict.fromkeys((left, right) for left, _, right in halves)
    try:
        return BPE(texts, list(pairs), ignore_merges=whole_words, byte_fallback=byte_fallback)
    except Exception:  # the library names neither the type nor the merge
        for number, merge in enumerate(merges):
            left, _, right = merge.partition(" ")
            if left not in texts or right not in texts or left + right not in texts:
                raise CheckpointError(
                    f"tokenizer.ggml.merges[{number}] is {merge!r}: not two tokens of the "
                    "vocabulary that make a third"
                ) from None
        raise


def unicode_only(ids: Mapping[str, int]) -> dict[str, int]:
    """The texts without half surrogate pairs: such a damaged token cannot come from a text."""
    try:
        "".join(ids).encode()
    except UnicodeEncodeError:
        return {text: i for text, i in ids.items() if not re.search("[\ud800-\udfff]", text)}
    return dict(ids)
