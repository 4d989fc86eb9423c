"""Byte-level BPE: bytes are written as 256 printable characters, words are merged by rank.

The merging is the tokenizers library's. Bytes that a vocabulary has no token for (SmolLM2 lacks
some control characters) still stand between their neighbours while words are merged, and only
then drop out; so they get ids past the vocabulary's end here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tokenizers import Regex
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Split
from tokenizers.pre_tokenizers import Sequence as Chain

from draftwalk.errors import CheckpointError, PromptError
from draftwalk.prompt.panics import library_failures
from draftwalk.prompt.pre_tokenizers import PreTokenizer as Words
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
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        size: int,
        merges: Sequence[str],
        words: Words,
        splitter: SpecialSplitter,
    ) -> None:
        self._size = size
        self._splitter = splitter
        texts = _unicode_only(ids)
        missing = [letter for letter in byte_alphabet().values() if letter not in texts]
        texts |= {letter: size + number for number, letter in enumerate(missing)}
        self._library = Library(_model(texts, merges, words.whole_words))
        steps: list[PreTokenizer] = [Split(Regex(p), "isolated") for p in words.patterns]
        steps.append(ByteLevel(add_prefix_space=False, use_regex=False))
        self._library.pre_tokenizer = Chain(steps)

    def shield(self, text: str) -> str:
        """See `Tokenizer.shield`."""
        return self._splitter.shield(text)

    def encode(self, text: str, special: bool) -> list[int]:
        """Ids of a text; see `Tokenizer.encode`."""
        ids: list[int] = []
        for part in self._splitter.split(text, special):
            if isinstance(part, int):
                ids.append(part)
            else:
                with library_failures(_not_encoded):
                    found = self._library.encode(part, add_special_tokens=False).ids
                ids.extend(index for index in found if index < self._size)
        return ids


def _not_encoded(reason: str) -> PromptError:
    return PromptError(f"the tokenizer cannot encode this text: {reason}")


def _model(texts: dict[str, int], merges: Sequence[str], whole_words: bool) -> BPE:
    """The library's model; of two equal merges the first one counts."""
    halves = (merge.partition(" ") for merge in merges)
    pairs = dict.fromkeys((left, right) for left, _, right in halves)
    try:
        return BPE(texts, list(pairs), ignore_merges=whole_words)
    except Exception:  # the library names neither the type nor the merge
        for number, merge in enumerate(merges):
            left, _, right = merge.partition(" ")
            if left not in texts or right not in texts or left + right not in texts:
                raise CheckpointError(
                    f"tokenizer.ggml.merges[{number}] is {merge!r}: not two tokens of the "
                    "vocabulary that make a third"
                ) from None
        raise


def _unicode_only(ids: Mapping[str, int]) -> dict[str, int]:
    """The texts without half surrogate pairs: such a damaged token cannot come from a text."""
    try:
        "".join(ids).encode()
    except UnicodeEncodeError:
        return {text: i for text, i in ids.items() if not re.search("[\ud800-\udfff]", text)}
    return dict(ids)
