"""WordPiece, as BERT's: words at spaces, punctuation and ideographs, then the longest pieces.

GGUF files write the beginning of a word with ▁ and leave ## out of what continues it; the
tokenizers library, which does the work, wants it the other way. A prompt gets its BOS token here,
but no separator at its end: nothing that goes on with a text reads these vocabularies. Ids are
llama.cpp's but for Hangul, which it does not take apart, characters newer than Unicode 15.0,
marks that take up room (only those that do not are accents here), and a ▁ that a text has itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from tokenizers import Tokenizer as Library
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from draftwalk.prompt.byte_level import unicode_only
from draftwalk.prompt.panics import library_failures, not_encoded
from draftwalk.prompt.special import SpecialSplitter

_WORD = "▁"
_UNKNOWN = "[UNK]"
_LONGEST = 1 << 30  # characters of a word; the library's own limit would make unknowns of words


class WordPieceEncoder:
    """Text to ids.

    Args:
        ids: token texts and their ids, without those that no text may turn into.
        unknown_id: the token for a word that has no pieces.
        lowercase: letters are made small first.
        strip_accents: accents are taken off first.
        splitter: finds special tokens.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        unknown_id: int,
        lowercase: bool,
        strip_accents: bool,
        splitter: SpecialSplitter,
    ) -> None:
        self._splitter = splitter
        pieces = {_piece(text): index for text, index in unicode_only(ids).items()}
        model = WordPiece(
            {**pieces, _UNKNOWN: unknown_id},
            unk_token=_UNKNOWN,
            max_input_chars_per_word=_LONGEST,
        )
        self._library = Library(model)
        self._library.normalizer = BertNormalizer(
            clean_text=True,
            handle_chinese_chars=True,
            strip_accents=strip_accents,
            lowercase=lowercase,
        )
        self._library.pre_tokenizer = BertPreTokenizer()

    def shield(self, text: str) -> str:
        """See `Tokenizer.shield`."""
        return self._splitter.shield(text)

    def encode(self, text: str, special: bool) -> list[int]:
        """Ids of a text; see `Tokenizer.encode`."""
        return self._splitter.encode(text, special, self._words)

    def _words(self, text: str) -> list[int]:
        with library_failures(not_encoded):
            return list(self._library.encode(text, add_special_tokens=False).ids)


def _piece(text: str) -> str:
    return text[1:] if text.startswith(_WORD) else "##" + text
