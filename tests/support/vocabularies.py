"""Small vocabularies made from a seed, as the metadata of a GGUF file has them.

Their merges are random trees over words that the hostile texts are made of, so that every way of
cutting and merging is taken; scores are in no sensible order and often equal.
"""

from __future__ import annotations

import json
import lzma
import random
import unicodedata
from pathlib import Path

from draftwalk.prompt.byte_level import byte_alphabet
from support.hostile_texts import WORDS

FIXTURES = Path(__file__).parent.parent / "fixtures"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
CONTROLS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool>")
MARKS = ("<think>", "</think>", "<|im_start|>x", "\n\n\n", "é!", "<tool><tool>")

Metadata = dict[str, object]
BYTE_LEVEL = (
    *("smollm", "qwen2", "llama-bpe", "gpt-2"),
    *("qwen35", "falcon", "deepseek-llm", "deepseek-coder"),
)
SENTENCEPIECE = ("llama", "gemma")
OTHERS = ("gemma4", "bert")


def byte_level(pre: str, seed: int = 1) -> Metadata:
    """Byte-level BPE with the named pre-tokenizer; without some bytes, as SmolLM2 has it."""
    rng = random.Random(seed)
    letters = byte_alphabet()
    missing = {0x04, 0x06, 0x13, 0xF1, 0xC0, 0xC1} if pre == "smollm" else set()
    tokens = [letter for byte, letter in letters.items() if byte not in missing]
    merges: dict[str, None] = {}
    for word in WORDS:
        spelled = "".join(letters[byte] for byte in word.encode())
        for _ in range(3):
            _grow(spelled, rng, merges)
    tokens += sorted({merge.replace(" ", "") for merge in merges} - set(tokens))
    kinds = [NORMAL] * len(tokens) + [CONTROL] * len(CONTROLS) + [USER_DEFINED] * len(MARKS)
    tokens += [*CONTROLS, *MARKS]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.bos_token_id": tokens.index("<|im_start|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|endoftext|>"),
    }


def sentencepiece(style: str, seed: int = 2) -> Metadata:
    """SentencePiece-style BPE, as Llama's (a space before every text) or as Gemma's."""
    rng = random.Random(seed)
    gemma = style == "gemma"
    control = ["<unk>", "<s>", "</s>", "<start_of_turn>", "<end_of_turn>", "<unused0>"]
    marks = ["\n", "\n\n", "\n\n\n", "\t\t", "  ", "    ", "[tag]", "<b>"] if gemma else ["<b>"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces: dict[str, None] = {}
    for word in (*WORDS, "> </"):
        spelled = word.replace(" ", "▁")
        merges: dict[str, None] = {}
        for _ in range(2):
            _grow(spelled, rng, merges)
        pieces |= dict.fromkeys([*spelled, *(merge.replace(" ", "") for merge in merges)])
    pieces |= dict.fromkeys("abcdefghijklmnopqrstuvwxyzHTW <>/[]'0123▁".replace(" ", ""))
    normal = [piece for piece in pieces if piece not in marks]
    tokens = [*control, *byte_tokens, *marks, *normal]
    kinds = [UNKNOWN, *[CONTROL] * 5, *[BYTE] * 256, *[USER_DEFINED] * len(marks)]
    scores = [0.0] * (len(tokens) - len(normal))
    scores += [float(-rng.choice((3, 7, 7, 7, rng.randrange(1000)))) for _ in normal]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": kinds + [NORMAL] * len(normal),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": not gemma,
    }


def spaced(seed: int = 3) -> Metadata:
    """BPE by rank over text with ▁ for a space, as Gemma 4's."""
    rng = random.Random(seed)
    control = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"]
    marks = ["[tag]", "<b>"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    merges: dict[str, None] = {}
    letters: dict[str, None] = {}
    for word in (*WORDS, "> </", "the world", "\n\n\n"):
        spelled = word.replace(" ", "▁")
        letters |= dict.fromkeys(spelled)
        for _ in range(3):
            _grow(spelled, rng, merges)
    normal = [*letters, *{merge.replace(" ", ""): None for merge in merges}]
    normal = [piece for piece in dict.fromkeys(normal) if piece not in marks]
    tokens = [*control, *byte_tokens, *marks, *normal]
    kinds = [CONTROL] * 6 + [BYTE] * 256 + [USER_DEFINED] * len(marks) + [NORMAL] * len(normal)
    return {
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.add_space_prefix": False,
    }


def word_piece(seed: int = 4) -> Metadata:
    """WordPiece, as BERT's: ▁ before what begins a word."""
    rng = random.Random(seed)
    control = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces: dict[str, None] = {}
    words = [word for word in WORDS if "▁" not in word]
    for word in (*words, "hello", "world", "naive", "facade", "unicode", "return", "user"):
        for part in unicodedata.normalize("NFD", word).lower().split():
            cut = rng.randrange(1, len(part) + 1)
            pieces |= dict.fromkeys(("▁" + part, "▁" + part[:cut], part[cut:], part[-1]))
    for letter in "abcdefghijklmnopqrstuvwxyz0123'.,!?()<>=-":
        pieces |= dict.fromkeys(("▁" + letter, letter))
    pieces.pop("", None)
    tokens = [*control, *pieces]
    return {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL] * 5 + [NORMAL] * len(pieces),
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.mask_token_id": 4,
    }


def made(name: str) -> Metadata:
    """A vocabulary by its name in the fixtures."""
    if name in OTHERS:
        return spaced() if name == "gemma4" else word_piece()
    return sentencepiece(name) if name in SENTENCEPIECE else byte_level(name)


def smollm2() -> Metadata:
    """The real one, as the model's file has it."""
    with lzma.open(FIXTURES / "smollm2_tokenizer.json.xz") as file:
        content: Metadata = json.load(file)
    return content


def special_texts(metadata: Metadata) -> list[str]:
    """The texts of control and user-defined tokens."""
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(kinds, list)
    wanted = (UNKNOWN, CONTROL, USER_DEFINED)
    return [token for token, kind in zip(tokens, kinds, strict=True) if kind in wanted]


def _grow(word: str, rng: random.Random, merges: dict[str, None]) -> None:
    """Adds the merges of one random tree over the letters of a word."""
    if len(word) < 2:
        return
    cut = rng.randrange(1, len(word))
    _grow(word[:cut], rng, merges)
    _grow(word[cut:], rng, merges)
    merges.setdefault(f"{word[:cut]} {word[cut:]}")
