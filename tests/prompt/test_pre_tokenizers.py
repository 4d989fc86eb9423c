"""Patterns of our own against those they stand for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from draftwalk.errors import PromptError
from draftwalk.prompt import tokenizer_from_gguf
from draftwalk.prompt.pre_tokenizers import find_pre_tokenizer
from support.vocabularies import byte_level

LINES = r"(?=(?>[^\S\r\n]*)[\r\n])\s*[\r\n]+"
NAMES = ("qwen2", "llama-bpe")
MILLIONS = 10_500_000  # Oniguruma tries again ten million times


@pytest.mark.parametrize("name", NAMES)
@given(text=st.text(alphabet=" \t\r\n\u3000\u0085\u2028a1'!", max_size=20))
def test_lines_are_cut_as_the_models_were_trained(name: str, text: str) -> None:
    (pattern,) = find_pre_tokenizer(name).patterns
    assert LINES in pattern
    plain = pattern.replace(LINES, r"\s*[\r\n]+")
    ours, theirs = (Split(Regex(p), "isolated") for p in (pattern, plain))
    assert ours.pre_tokenize_str(text) == theirs.pre_tokenize_str(text)


@pytest.mark.parametrize("name", NAMES)
def test_millions_of_spaces_are_two_words(name: str) -> None:
    (pattern,) = find_pre_tokenizer(name).patterns
    words = Split(Regex(pattern), "isolated").pre_tokenize_str(" " * MILLIONS + "x")
    assert [place for _, place in words] == [(0, MILLIONS - 1), (MILLIONS - 1, MILLIONS + 1)]
    assert all(before[1][1] == after[1][0] for before, after in pairwise(words))


def test_what_is_still_too_long_is_an_error_of_the_text() -> None:
    tokenizer = tokenizer_from_gguf(byte_level("qwen2"))
    with pytest.raises(PromptError, match="the tokenizer cannot encode this text: "):
        tokenizer.encode("\n" + " " * MILLIONS + "x")
    assert tokenizer.decode(tokenizer.encode("a b")) == "a b"
