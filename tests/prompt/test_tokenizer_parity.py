"""Ids, bytes and stop ids equal llama.cpp's, as referee/tokenizer_fixtures.py recorded them."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftwalk.prompt import Tokenizer, tokenizer_from_gguf
from support.vocabularies import BYTE_LEVEL, FIXTURES, OTHERS, SENTENCEPIECE, made, smollm2

NAMES = (*BYTE_LEVEL, *SENTENCEPIECE, *OTHERS, "smollm2")


@cache
def tokenizer(name: str) -> Tokenizer:
    return tokenizer_from_gguf(smollm2() if name == "smollm2" else made(name))


@cache
def recorded(name: str) -> dict[str, list[list[object]]]:
    content: dict[str, list[list[object]]] = json.loads(
        (FIXTURES / f"tokenizer_{name}.json").read_text(encoding="utf-8")
    )
    return content


def comparable(name: str) -> list[list[object]]:
    """The texts whose ids are llama.cpp's: see prompt/word_piece.py for those that are not."""
    texts = recorded(name)["texts"]
    if name != "bert":
        return texts
    return [case for case in texts if not re.search("[\u1c89▁\uac00-\ud7a3]", str(case[0]))]


@pytest.mark.parametrize("name", NAMES)
def test_ids_equal_llama_cpp(name: str) -> None:
    ours = tokenizer(name)
    texts = comparable(name)
    assert len(texts) > 120
    for text, plain, special in texts:
        assert isinstance(text, str)
        assert ours.encode(text) == plain, text
        assert ours.encode(text, special=True) == special, text


@pytest.mark.parametrize("name", [name for name in NAMES if name != "bert"])  # unknown words
def test_special_tokens_in_user_text_stay_text(name: str) -> None:
    ours = tokenizer(name)
    vocabulary = ours.spelling.vocabulary
    control = {i for i, kind in enumerate(vocabulary.kinds) if kind in (2, 3)}
    found = 0
    for text, _, special in recorded(name)["texts"]:
        assert isinstance(text, str)
        assert not control & set(ours.encode(text)), text
        found += bool(control & set(special))
    assert found > 10, "the texts have special tokens in them"


@pytest.mark.parametrize("name", NAMES)
def test_a_shielded_text_has_the_ids_of_plain_text(name: str) -> None:
    ours = tokenizer(name)
    for text, plain, _ in comparable(name):
        assert isinstance(text, str)
        assert ours.encode(ours.shield(text), special=True) == plain, text


@pytest.mark.parametrize("name", NAMES)
def test_prompts_begin_as_llama_cpp_has_it(name: str) -> None:
    theirs = recorded(name)["prompt"]
    if name == "bert":
        theirs = theirs[:-1]  # its separator at the end
    assert tokenizer(name).encode_prompt("a text") == theirs


@pytest.mark.parametrize("name", NAMES)
def test_stop_ids_equal_llama_cpp(name: str) -> None:
    assert sorted(tokenizer(name).stop_ids) == recorded(name)["stop_ids"]


@pytest.mark.parametrize("name", [*BYTE_LEVEL, *SENTENCEPIECE, *OTHERS])
def test_bytes_of_every_token_equal_llama_cpp(name: str) -> None:
    ours = tokenizer(name)
    pieces = recorded(name)["pieces"]
    assert len(pieces) == ours.vocabulary_size
    for index, (plain, special) in enumerate(pieces):
        assert ours.token_bytes(index).hex() == plain
        assert ours.token_bytes(index, special=True).hex() == special


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("smollm", "smollm2", "bert")]
)
@given(text=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="▁"), max_size=60))
def test_decoding_gives_the_text_back(name: str, text: str) -> None:
    ours = tokenizer(name)
    assert ours.decode(ours.encode(text)) == text


def test_a_text_of_a_megabyte_takes_seconds_at_most() -> None:
    text = "The quick brown fox, 1234 times:\n\tfunc(x) == 'é';  " * 4000
    for name in ("smollm2", "gemma"):
        ids = tokenizer(name).encode(text)
        assert tokenizer(name).decode(ids) == text
