"""Record the ids that llama.cpp's source expects of its test vocabularies.

Run in the referee environment, with PYTHONPATH=src:tests:
`python referee/vocabulary_fixtures.py FOLDER`, where FOLDER has llama.cpp's `ggml-vocab-*.gguf`
with their `.inp` and `.out` (the llama-cpp-python sdist has them in `vendor/llama.cpp/models`).
Rewrites `tests/fixtures/vocabularies.json.xz`.

The vocabularies are too large to carry, so each is cut down to what its texts can touch: tokens
whose text occurs in one of them, and merges whose result does. No other token or merge can take
part, so the ids stay what they are; they are carried as the numbers that tokens had before.
"""

from __future__ import annotations

import json
import lzma
import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

from draftwalk.prompt import tokenizer_from_gguf
from draftwalk.prompt.byte_level import byte_alphabet
from fixtures import FIXTURES
from llama_vocabulary import LlamaVocabulary, read_tokenizer

SEPARATOR = "\n__ggml_vocab_test__\n"
NONE = 0xFFFFFFFF
KEPT_KINDS = (2, 6)  # unknown and byte tokens
PREFIX = "tokenizer.ggml."
KEPT_KEYS = ("model", "pre", "add_space_prefix", "normalizer.lowercase", "normalizer.strip_accents")


def main(arguments: Sequence[str]) -> None:
    """Rewrite the fixture."""
    if len(arguments) != 1:
        raise SystemExit("usage: vocabulary_fixtures.py FOLDER")
    recorded = {}
    for path in sorted(Path(arguments[0]).glob("ggml-vocab-*.gguf")):
        name = path.stem.removeprefix("ggml-vocab-")
        if Path(f"{path}.out").exists():
            recorded[name] = record(name, path)
        else:
            print(f"{name}: no expected ids")
    content = json.dumps(recorded, ensure_ascii=False, separators=(",", ":")).encode()
    target = FIXTURES / "vocabularies.json.xz"
    target.write_bytes(lzma.compress(content, preset=9))
    print(f"{target.name}: {target.stat().st_size} bytes, {len(recorded)} vocabularies")


def record(name: str, path: Path) -> dict[str, object]:
    """One vocabulary, with everything checked on the whole one and on the small one."""
    texts = Path(f"{path}.inp").read_bytes().decode().split(SEPARATOR)
    lines = Path(f"{path}.out").read_text().split("\n")[: len(texts)]
    expected = [[int(number) for number in line.split()] for line in lines]
    metadata = read_tokenizer(path)
    ours, theirs = tokenizer_from_gguf(metadata), LlamaVocabulary(path)
    for text, ids in zip(texts, expected, strict=True):
        if theirs.encode(text, special=False) != ids:
            print(f"{name}: llama.cpp itself differs on {text!r}")
        assert ours.encode(text) == ids, (name, text, ours.encode(text), ids)
    small, kept = reduced(metadata, texts)
    again = tokenizer_from_gguf(small)
    for text, ids in zip(texts, expected, strict=True):
        assert [kept[i] for i in again.encode(text)] == ids, (name, text)
    print(f"{name}: {len(texts)} texts, {len(kept)} of {theirs.size} tokens")
    return {"metadata": small, "ids": kept, "texts": [*zip(texts, expected, strict=True)]}


def reduced(
    metadata: dict[str, object], texts: Sequence[str]
) -> tuple[dict[str, object], list[int]]:
    """The keys of the smaller vocabulary, and which token each of its tokens was."""
    occurs = occurrence(str(metadata[PREFIX + "model"]), texts)
    tokens, kinds = metadata[PREFIX + "tokens"], metadata[PREFIX + "token_type"]
    assert isinstance(tokens, list)
    assert isinstance(kinds, list)
    unknown = metadata.get(PREFIX + "unknown_token_id")
    kept = [
        index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in KEPT_KINDS or index == unknown or occurs(token)
    ]
    small: dict[str, object] = {
        PREFIX + key: metadata[PREFIX + key] for key in KEPT_KEYS if PREFIX + key in metadata
    }
    for key in ("tokens", "token_type", "scores"):
        values = metadata.get(PREFIX + key)
        if isinstance(values, list):
            small[PREFIX + key] = [values[index] for index in kept]
    merges = metadata.get(PREFIX + "merges")
    if isinstance(merges, list):
        small[PREFIX + "merges"] = [merge for merge in merges if occurs(merge.replace(" ", ""))]
    small |= {PREFIX + key: NONE for key in ("bos_token_id", "eos_token_id")}
    small[PREFIX + "unknown_token_id"] = kept.index(unknown) if unknown in kept else NONE
    return small, kept


def occurrence(model: str, texts: Sequence[str]) -> Callable[[str], bool]:
    """Whether a token's text is in one of the texts, spelled as the vocabulary spells them."""
    if model == "gpt2":
        letters = byte_alphabet()
        spelled = ["".join(letters[byte] for byte in text.encode()) for text in texts]
        spelled += [*letters.values(), *texts]
    elif model == "bert":
        apart = [unicodedata.normalize("NFD", text).lower() for text in texts]
        spelled = ["".join(c for c in text if not unicodedata.combining(c)) for text in apart]
        spelled = ["▁".join(("", *text.split(" "))) for text in spelled]
        return lambda token: any(token.removeprefix("▁") in text for text in spelled)
    else:
        spelled = ["▁" + text.replace(" ", "▁") for text in texts] + list(texts)
    return lambda token: any(token in text for text in spelled)


if __name__ == "__main__":
    main(sys.argv[1:])
