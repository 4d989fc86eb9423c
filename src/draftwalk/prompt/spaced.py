"""BPE by rank over plain text with ▁ for a space, as Gemma 4's: no alphabet of bytes, no words.

Lines are merged whole. A run of newlines is the token of that run, where there is one, whatever
its merges would give. A character without a token becomes the tokens of its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer as Library
from tokenizers.normalizers import Replace

from draftwalk.prompt.byte_level import bpe_model, unicode_only
from draftwalk.prompt.panics import library_failures, not_encoded
from draftwalk.prompt.special import SpecialSplitter

_LINES = re.compile(r"[^\n]+|\n+")


class SpacedEncoder:
    """Text to ids.

    Args:
        ids: token texts and their ids, without those that no text may turn into.
        size: number of tokens.
        merges: pairs to merge, best first, each as two texts with a space between.
        splitter: finds special tokens.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        size: int,
        merges: Sequence[str],
        splitter: SpecialSplitter,
    ) -> None:
        self._ids = ids
        self._size = size
        self._splitter = splitter
        texts = unicode_only(ids)
        # The library falls back to bytes only where it has them all; what is past the end is
        # dropped again.
        missing = [name for byte in range(256) if (name := f"<0x{byte:02X}>") not in texts]
        texts |= {name: size + number for number, name in enumerate(missing)}
        self._library = Library(bpe_model(texts, merges, byte_fallback=True))
        self._library.normalizer = Replace(" ", "▁")

    def shield(self, text: str) -> str:
        """See `Tokenizer.shield`."""
        return self._splitter.shield(text)

    def encode(self, text: str, special: bool) -> list[int]:
        """Ids of a text; see `Tokenizer.encode`."""
        return self._splitter.encode(text, special, self._lines)

    def _lines(self, text: str) -> list[int]:
        ids: list[int] = []
        for line in _LINES.findall(text):
            if line[0] == "\n" and line in self._ids:
                ids.append(self._ids[line])
                continue
            with library_failures(not_encoded):
                found = self._library.encode(line, add_special_tokens=False).ids
            ids.extend(index for index in found if index < self._size)
        return ids
