"""SentencePiece-style BPE, as llama.cpp does it: merge the pair whose result scores best.

The tokenizers library ranks pairs, not results: two ways to the same token get different ranks,
where here they tie and the left one wins, so that runs like "======" come out differently. A heap
per word does it exactly. Words repeat, so they are remembered; a word ends before a ▁ unless the
vocabulary has a token that crosses just there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise

from draftwalk.errors import PromptError
from draftwalk.prompt.special import SpecialSplitter

SPACE = "▁"
_REMEMBERED = 1 << 15
_LONGEST_REMEMBERED = 64

_Pair = tuple[float, int, int, str]  # minus the score, position of left and right, merged text


class SentencePieceEncoder:
    """Text to ids by score.

    Args:
        ids: token texts and their ids, without those that no text may turn into.
        scores: score of every token by id.
        byte_ids: the token of each byte, for characters without a token.
        unknown_id: the token for such a character where byte tokens are missing.
        space_prefix: a text begins with a space, also after a special token.
        splitter: finds special tokens.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        scores: Sequence[float],
        byte_ids: Mapping[int, int],
        unknown_id: int | None,
        space_prefix: bool,
        splitter: SpecialSplitter,
    ) -> None:
        self._ids = ids
        self._scores = scores
        self._byte_ids = byte_ids
        self._unknown_id = unknown_id
        self._space_prefix = space_prefix
        self._splitter = splitter
        self._word_end = _word_end(ids)
        self._remembered = lru_cache(_REMEMBERED)(self._merge)

    def shield(self, text: str) -> str:
        """See `Tokenizer.shield`."""
        return self._splitter.shield(text)

    def encode(self, text: str, special: bool) -> list[int]:
        """Ids of a text; see `Tokenizer.encode`."""
        ids: list[int] = []
        after_special = True
        for part in self._splitter.split(text, special):
            if isinstance(part, int):
                ids.append(part)
                after_special = True
            else:
                prefix = " " if self._space_prefix and after_special else ""
                ids.extend(self._pieces(prefix + part))
                after_special = False
        return ids

    def _pieces(self, text: str) -> list[int]:
        ids: list[int] = []
        for word in self._word_end.split(text.replace(" ", SPACE)):
            merge = self._remembered if len(word) <= _LONGEST_REMEMBERED else self._merge
            ids.extend(merge(word))
        return ids

    def _merge(self, word: str) -> tuple[int, ...]:
        """Ids of one word: characters are symbols, and the best pair is merged until none is left.

        A merged symbol stays at its left one's place; the place of its right one becomes empty.
        """
        symbols = list(word)
        last = len(symbols)
        following = list(range(1, last + 1))
        previous = list(range(-1, last - 1))
        heap = [pair for left in range(last - 1) if (pair := self._pair(symbols, left, left + 1))]
        heapify(heap)
        while heap:
            _, left, right, text = heappop(heap)
            if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != text:
                continue  # one of the two has been merged with another since
            symbols[left], symbols[right] = text, ""
            following[left] = following[right]
            if following[left] < last:
                previous[following[left]] = left
                if pair := self._pair(symbols, left, following[left]):
                    heappush(heap, pair)
            if previous[left] >= 0 and (pair := self._pair(symbols, previous[left], left)):
                heappush(heap, pair)
        return tuple(index for symbol in symbols if symbol for index in self._symbol(symbol))

    def _pair(self, symbols: Sequence[str], left: int, right: int) -> _Pair | None:
        text = symbols[left] + symbols[right]
        index = self._ids.get(text)
        return None if index is None else (-self._scores[index], left, right, text)

    def _symbol(self, symbol: str) -> Sequence[int]:
        """The token of a symbol, or those of its bytes."""
        index = self._ids.get(symbol)
        if index is not None:
            return (index,)
        data = symbol.encode()
        if all(byte in self._byte_ids for byte in data):
            return [self._byte_ids[byte] for byte in data]
        if self._unknown_id is None:
            raise PromptError(f"the vocabulary has no token for {symbol!r} or for its bytes")
        return (self._unknown_id,)


def _word_end(ids: Mapping[str, int]) -> re.Pattern[str]:
    """Where a text can be cut without changing its ids: before a ▁ that no token reaches across."""
    crossing = {
        before
        for text in ids
        if SPACE in text[1:]
        for before, letter in pairwise(text)
        if letter == SPACE
    }
    return re.compile(rf"(?<=[^{re.escape(SPACE + ''.join(sorted(crossing)))}])(?={SPACE})")
