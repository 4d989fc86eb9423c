"""The merging against a plain one that looks for the best pair again and again."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from draftwalk.prompt.sentencepiece import SentencePieceEncoder
from draftwalk.prompt.special import SpecialSplitter

LETTERS = "ab▁="
PIECES = st.text(alphabet=LETTERS, min_size=2, max_size=5)


def merged_one_by_one(text: str, scores: dict[str, float]) -> list[str]:
    symbols = list(text)
    while True:
        pairs = [
            (-scores[left + right], i)
            for i, (left, right) in enumerate(pairwise(symbols))
            if left + right in scores
        ]
        if not pairs:
            return symbols
        _, best = min(pairs)
        symbols[best : best + 2] = [symbols[best] + symbols[best + 1]]


@settings(max_examples=300)
@given(
    st.dictionaries(PIECES, st.sampled_from((0.0, -1.0, -2.0)), max_size=12),
    st.text(alphabet="ab =", max_size=40),
)
def test_the_best_pair_is_merged_first_and_of_equal_ones_the_left(
    pieces: dict[str, float], text: str
) -> None:
    scores = dict.fromkeys(LETTERS, -9.0) | pieces
    tokens = list(scores)
    encoder = SentencePieceEncoder(
        ids={token: index for index, token in enumerate(tokens)},
        scores=list(scores.values()),
        byte_ids={},
        unknown_id=None,
        space_prefix=False,
        splitter=SpecialSplitter(tokens, {}),
    )
    expected = merged_one_by_one(text.replace(" ", "▁"), scores)
    assert [tokens[index] for index in encoder.encode(text, special=False)] == expected


def test_words_longer_than_the_memory_are_merged_too() -> None:
    tokens = ["a", "aa", "aaaa"]
    encoder = SentencePieceEncoder(
        {token: index for index, token in enumerate(tokens)},
        [-3.0, -2.0, -1.0],
        {},
        None,
        False,
        SpecialSplitter(tokens, {}),
    )
    assert encoder.encode("a" * 20_003, special=False) == [2] * 5000 + [1, 0]
