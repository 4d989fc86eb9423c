"""Record what llama.cpp makes of hostile texts, for made vocabularies and for SmolLM2's.

Run in the referee environment, with PYTHONPATH=src:tests:
`python referee/tokenizer_fixtures.py SMOLLM2.gguf [OTHER.gguf ...]`. It rewrites
`tests/fixtures/smollm2_tokenizer.json.xz` and `tests/fixtures/tokenizer_*.json`. On the other files
(Gemma's, or the vocabularies that llama.cpp carries) ours is compared on the spot, because they are
too large or not ours to carry.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from draftwalk.errors import UserError
from draftwalk.prompt import tokenizer_from_gguf
from draftwalk.prompt.pre_tokenizers import PRE_TOKENIZERS
from fixtures import FIXTURES
from llama_vocabulary import LlamaVocabulary, read_tokenizer, write_tokenizer
from support.hostile_texts import hostile_texts
from support.vocabularies import BYTE_LEVEL, OTHERS, SENTENCEPIECE, byte_level, made, special_texts

TEXTS_OF_SMOLLM2 = 150
TEXTS_OF_OTHERS = 1500
MOST_SPECIALS = 60


def main(paths: Sequence[str]) -> None:
    """Rewrite the fixtures, then compare with the other files."""
    if not paths:
        raise SystemExit("usage: tokenizer_fixtures.py SMOLLM2.gguf [OTHER.gguf ...]")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "vocabulary.gguf"
        for name in (*BYTE_LEVEL, *SENTENCEPIECE, *OTHERS):
            metadata = made(name)
            write_tokenizer(scratch, metadata)
            record(name, LlamaVocabulary(scratch), hostile_texts(special_texts(metadata)), True)
        check_names(scratch)
    path = Path(paths[0])
    metadata = read_tokenizer(path)
    with lzma.open(FIXTURES / "smollm2_tokenizer.json.xz", "wb", preset=9) as file:
        file.write(json.dumps(metadata, ensure_ascii=False).encode())
    texts = hostile_texts(special_texts(metadata), count=TEXTS_OF_SMOLLM2)
    record("smollm2", LlamaVocabulary(path), texts, False)
    for other in paths[1:]:
        compare(Path(other))


def record(name: str, vocabulary: LlamaVocabulary, texts: Sequence[str], pieces: bool) -> None:
    """Write one fixture."""
    content: dict[str, object] = {
        "stop_ids": vocabulary.stop_ids(),
        "prompt": vocabulary.encode("a text", False, add_bos=True),
        "texts": [
            [text, vocabulary.encode(text, False), vocabulary.encode(text, True)] for text in texts
        ],
    }
    if pieces:
        content["pieces"] = [
            [vocabulary.piece(index, special).hex() for special in (False, True)]
            for index in range(vocabulary.size)
        ]
    path = FIXTURES / f"tokenizer_{name}.json"
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(texts)} texts, {path.stat().st_size} bytes")


def check_names(scratch: Path) -> None:
    """All names of a pre-tokenizer must be the same to llama.cpp."""
    for entry in PRE_TOKENIZERS:
        metadata = byte_level(entry.names[0])
        results = {
            name: ids_by_llama_cpp(scratch, metadata | {"tokenizer.ggml.pre": name})
            for name in entry.names
        }
        for name, ids in results.items():
            if ids != results[entry.names[0]]:
                raise SystemExit(f"{name} is not the same as {entry.names[0]}")
        tokenizer = tokenizer_from_gguf(metadata)
        texts = hostile_texts(special_texts(metadata))
        ours = [tokenizer.encode(text, special) for text in texts for special in (False, True)]
        if entry.add_bos:
            ours = [[tokenizer.bos_id, *ids] for ids in ours]
        same = ours == results[entry.names[0]]
        print(f"{entry.names[0]}: {len(results)} names agree, ours {'too' if same else 'DIFFERS'}")


def ids_by_llama_cpp(scratch: Path, metadata: dict[str, object]) -> list[list[int]]:
    """Ids of hostile texts for a vocabulary; all of one entry must have the same one."""
    write_tokenizer(scratch, metadata)
    vocabulary = LlamaVocabulary(scratch)
    texts = hostile_texts(special_texts(metadata))
    return [vocabulary.encode(text, special, True) for text in texts for special in (False, True)]


def compare(path: Path) -> None:
    """Say how often ours differs on a vocabulary that is not carried."""
    metadata = read_tokenizer(path)
    started = time.perf_counter()
    try:
        tokenizer = tokenizer_from_gguf(metadata)
    except UserError as error:
        print(f"{path.name}: refused: {error}")
        return
    seconds = time.perf_counter() - started
    theirs = LlamaVocabulary(path)
    specials = special_texts(metadata)[:: max(1, len(special_texts(metadata)) // MOST_SPECIALS)]
    texts = hostile_texts(specials, count=TEXTS_OF_OTHERS)
    cases = [(text, special) for text in texts for special in (False, True)]
    wrong = [case for case in cases if tokenizer.encode(*case) != theirs.encode(*case)]
    stops = sorted(tokenizer.stop_ids ^ frozenset(theirs.stop_ids()))
    print(
        f"{path.name}: {len(wrong)} of {len(cases)} texts differ, first {wrong[:1]}; "
        f"stop ids that differ {stops}; built in {seconds:.2f} s"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
