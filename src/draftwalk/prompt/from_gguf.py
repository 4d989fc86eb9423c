"""Builds the tokenizer that a GGUF file describes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from draftwalk.errors import CheckpointError
from draftwalk.prompt.byte_level import ByteLevelEncoder
from draftwalk.prompt.pre_tokenizers import find_pre_tokenizer
from draftwalk.prompt.sentencepiece import SentencePieceEncoder
from draftwalk.prompt.special import SpecialSplitter
from draftwalk.prompt.spelling import Spelling
from draftwalk.prompt.stop_tokens import generation_stops, special_kinds, stop_ids
from draftwalk.prompt.tokenizer import Encoder, Tokenizer
from draftwalk.prompt.vocabulary import (
    PREFIX,
    Kind,
    Vocabulary,
    read_flag,
    read_id,
    read_numbers,
    read_string,
    read_strings,
    read_vocabulary,
)

_NAMED = (
    *("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id"),
    *("fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id"),
    *("fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"),
)
_SENTENCEPIECE_DEFAULTS = {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def tokenizer_from_gguf(
    metadata: Mapping[str, object], generation: Mapping[str, object] | None = None
) -> Tokenizer:
    """The tokenizer of a GGUF file.

    Args:
        metadata: the file's keys; only `tokenizer.*` is read, and arrays may be numpy's.
        generation: a generation config whose `eos_token_id` joins the stop ids.
    """
    model = read_string(metadata, PREFIX + "model")
    if model not in ("gpt2", "llama"):
        raise CheckpointError(
            f"the tokenizer kind {model!r} is not implemented",
            "known: gpt2 (byte-level BPE) and llama (SentencePiece)",
        )
    byte_level = model == "gpt2"
    vocabulary = read_vocabulary(metadata, byte_level)
    ids = vocabulary.ids()
    named = _named_ids(metadata, vocabulary)
    kinds = special_kinds(vocabulary, ids, named)
    splitter = SpecialSplitter(vocabulary.tokens, kinds)
    control = {index for index in kinds if _is_control(vocabulary, index)}
    usable = {text: index for text, index in ids.items() if index not in control}
    build = _byte_level if byte_level else _sentencepiece
    encoder, add_bos, prefix = build(metadata, vocabulary, usable, named, splitter)
    return Tokenizer(
        encoder=encoder,
        spelling=Spelling(vocabulary),
        bos_id=named.get("bos_token_id"),
        eos_id=named.get("eos_token_id"),
        add_bos=_add_bos(metadata, add_bos, named),
        stop_ids=stop_ids(vocabulary, ids, named) | generation_stops(generation or {}),
        strips_leading_space=prefix,
        chat_template=read_string(metadata, "tokenizer.chat_template"),
    )


def _byte_level(
    metadata: Mapping[str, object],
    vocabulary: Vocabulary,
    ids: Mapping[str, int],
    _named: Mapping[str, int],
    splitter: SpecialSplitter,
) -> tuple[Encoder, bool, bool]:
    words = find_pre_tokenizer(read_string(metadata, PREFIX + "pre"))
    merges = read_strings(metadata, PREFIX + "merges")
    encoder = ByteLevelEncoder(ids, len(vocabulary.tokens), merges, words, splitter)
    return encoder, words.add_bos, False


def _sentencepiece(
    metadata: Mapping[str, object],
    vocabulary: Vocabulary,
    ids: Mapping[str, int],
    named: Mapping[str, int],
    splitter: SpecialSplitter,
) -> tuple[Encoder, bool, bool]:
    scores = read_numbers(metadata, PREFIX + "scores", "iuf", len(vocabulary.tokens))
    if np.isnan(scores).any():
        raise CheckpointError(f"{PREFIX}scores has NaN in it")
    prefix = read_flag(metadata, PREFIX + "add_space_prefix", True)
    encoder = SentencePieceEncoder(
        ids,
        scores.tolist(),
        _byte_ids(ids),
        named.get("unknown_token_id"),
        prefix,
        splitter,
    )
    return encoder, True, prefix


def _byte_ids(ids: Mapping[str, int]) -> dict[int, int]:
    """The token of each byte; a vocabulary may lack some."""
    names = ((byte, f"<0x{byte:02X}>") for byte in range(256))
    return {byte: ids[name] for byte, name in names if name in ids}


def _named_ids(metadata: Mapping[str, object], vocabulary: Vocabulary) -> dict[str, int]:
    """The tokens that the file names by key, and SentencePiece's own numbers where it does not."""
    size = len(vocabulary.tokens)
    found = {name: read_id(metadata, PREFIX + name, size) for name in _NAMED}
    named = {name: index for name, index in found.items() if index is not None}
    if not vocabulary.byte_level:
        for name, index in _SENTENCEPIECE_DEFAULTS.items():
            if PREFIX + name not in metadata and index < size and _is_control(vocabulary, index):
                named[name] = index
    return named


def _add_bos(metadata: Mapping[str, object], default: bool, named: Mapping[str, int]) -> bool:
    """Whether a prompt begins with BOS; a file that asks for one must name it."""
    key = PREFIX + "add_bos_token"
    add_bos = read_flag(metadata, key, default)
    if add_bos and "bos_token_id" not in named:
        if key in metadata:
            raise CheckpointError(f"{key} is true, but the file names no BOS token")
        return False
    return add_bos


def _is_control(vocabulary: Vocabulary, index: int) -> bool:
    return vocabulary.kinds[index] in (Kind.CONTROL, Kind.UNKNOWN)
