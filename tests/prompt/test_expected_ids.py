"""The ids that llama.cpp's source expects of its test vocabularies, cut down to what they need."""

from __future__ import annotations

import json
import lzma
from functools import cache

import pytest

from draftwalk.prompt import tokenizer_from_gguf
from support.vocabularies import FIXTURES

NAMES = (
    *("bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2"),
    *("llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder"),
)


@cache
def recorded() -> dict[str, dict[str, object]]:
    with lzma.open(FIXTURES / "vocabularies.json.xz") as file:
        content: dict[str, dict[str, object]] = json.load(file)
    return content


def test_all_that_have_expected_ids_are_here() -> None:
    assert set(recorded()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_expected_ids(name: str) -> None:
    entry = recorded()[name]
    metadata, before, texts = entry["metadata"], entry["ids"], entry["texts"]
    assert isinstance(metadata, dict)
    assert isinstance(before, list)
    assert isinstance(texts, list)
    tokenizer = tokenizer_from_gguf(metadata)
    assert len(texts) > 40
    for text, expected in texts:
        assert [before[index] for index in tokenizer.encode(text)] == expected, text
