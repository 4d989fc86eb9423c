"""Builds the tokenizer that a GGUF file describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from draftwalk.errors import CheckpointError
from draftwalk.prompt.byte_level import ByteLevelEncoder
from draftwalk.prompt.pre_tokenizers import find_pre_tokenizer
from draftwalk.prompt.sentencepiece import SentencePieceEncoder
from draftwalk.prompt.spaced import SpacedEncoder
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
from draftwalk.prompt.word_piece import WordPieceEncoder

_NAMED = (
    *("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id"),
    *("fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id"),
    *("fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"),
)
# Ids that llama.cpp takes for granted where a file of the kind does not name them.
_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "llama": {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    "bert": {"unknown_token_id": 100, "bos_token_id": 101},
}
# Ours: what is done to a text before it is cut. llama.cpp has no key for it, and does nothing.
NORMALIZER_KEY = "draftwalk.tokenizer.normalizer"


def tokenizer_from_gguf(
    metadata: Mapping[str, object], generation: Mapping[str, object] | None = None
) -> Tokenizer:
    """The tokenizer of a GGUF file.

    Args:
        metadata: the file's keys; only those of tokenizers are read, and arrays may be numpy's.
        generation: a generation config whose `eos_token_id` joins the stop ids.
    """
    model = read_string(metadata, PREFIX + "model")
    if model is None or model not in _BUILDERS:
        raise CheckpointError(
            f"the tokenizer kind {model!r} is not implemented",
            "known: gpt2 (byte-level BPE), llama (SentencePiece), gemma4 and bert (WordPiece)",
        )
    vocabulary = read_vocabulary(metadata, byte_level=model == "gpt2")
    ids = vocabulary.ids()
    named = _named_ids(metadata, vocabulary, _DEFAULTS.get(model, {}))
    kinds = special_kinds(vocabulary, ids, named)
    splitter = SpecialSplitter(vocabulary.tokens, kinds)
    control = {index for index in kinds if _is_control(vocabulary, index)}
    usable = {text: index for text, index in ids.items() if index not in control}
    encoder, add_bos, prefix = _BUILDERS[model](
        _Parts(metadata, vocabulary, usable, named, splitter)
    )
    return Tokenizer(
        encoder=encoder,
        spelling=Spelling(vocabulary),
        bos_id=named.get("bos_token_id"),
        eos_id=named.get("eos_token_id"),
        add_bos=_add_bos(metadata, add_bos, named, always=model == "gemma4"),
        stop_ids=stop_ids(vocabulary, ids, named) | generation_stops(generation or {}),
        strips_leading_space=prefix,
        chat_template=read_string(metadata, "tokenizer.chat_template"),
    )


@dataclass(frozen=True)
class _Parts:
    """What encoders are built from.

    Attributes:
        metadata: the file's keys.
        vocabulary: every token.
        ids: tokens that a text may turn into.
        named: tokens that the file names by key.
        splitter: finds special tokens.
    """

    metadata: Mapping[str, object]
    vocabulary: Vocabulary
    ids: Mapping[str, int]
    named: Mapping[str, int]
    splitter: SpecialSplitter


# An encoder, whether a prompt begins with BOS by default, whether a text begins with a space.
_Built = tuple[Encoder, bool, bool]


def _byte_level(parts: _Parts) -> _Built:
    words = find_pre_tokenizer(read_string(parts.metadata, PREFIX + "pre"))
    merges = read_strings(parts.metadata, PREFIX + "merges")
    encoder = ByteLevelEncoder(
        parts.ids,
        len(parts.vocabulary.tokens),
        merges,
        words,
        parts.splitter,
        composes=_composes(parts.metadata),
    )
    return encoder, words.add_bos, False


def _composes(metadata: Mapping[str, object]) -> bool:
    normalizer = read_string(metadata, NORMALIZER_KEY)
    if normalizer not in (None, "NFC"):
        raise CheckpointError(f"{NORMALIZER_KEY} is {normalizer!r}, only NFC is implemented")
    return normalizer is not None


def _spaced(parts: _Parts) -> _Built:
    merges = read_strings(parts.metadata, PREFIX + "merges")
    size = len(parts.vocabulary.tokens)
    return SpacedEncoder(parts.ids, size, merges, parts.splitter), True, False


def _sentencepiece(parts: _Parts) -> _Built:
    scores = read_numbers(parts.metadata, PREFIX + "scores", "iuf", len(parts.vocabulary.tokens))
    if np.isnan(scores).any():
        raise CheckpointError(f"{PREFIX}scores has NaN in it")
    prefix = read_flag(parts.metadata, PREFIX + "add_space_prefix", True)
    encoder = SentencePieceEncoder(
        parts.ids,
        scores.tolist(),
        _byte_ids(parts.ids),
        parts.named.get("unknown_token_id"),
        prefix,
        parts.splitter,
    )
    return encoder, True, prefix


def _word_piece(parts: _Parts) -> _Built:
    unknown = parts.named.get("unknown_token_id")
    if unknown is None:
        raise CheckpointError(f"{PREFIX}unknown_token_id is missing")
    lowercase = read_flag(parts.metadata, PREFIX + "normalizer.lowercase", True)
    strip_accents = read_flag(parts.metadata, PREFIX + "normalizer.strip_accents", lowercase)
    encoder = WordPieceEncoder(parts.ids, unknown, lowercase, strip_accents, parts.splitter)
    return encoder, True, False


_BUILDERS: Mapping[str, Callable[[_Parts], _Built]] = {
    "gpt2": _byte_level,
    "gemma4": _spaced,
    "llama": _sentencepiece,
    "bert": _word_piece,
}


def _byte_ids(ids: Mapping[str, int]) -> dict[int, int]:
    """The token of each byte; a vocabulary may lack some."""
    names = ((byte, f"<0x{byte:02X}>") for byte in range(256))
    return {byte: ids[name] for byte, name in names if name in ids}


def _named_ids(
    metadata: Mapping[str, object], vocabulary: Vocabulary, defaults: Mapping[str, int]
) -> dict[str, int]:
    """The tokens that the file names by key, and the kind's own numbers where it does not."""
    size = len(vocabulary.tokens)
    found = {name: read_id(metadata, PREFIX + name, size) for name in _NAMED}
    named = {name: index for name, index in found.items() if index is not None}
    for name, index in defaults.items():
        if PREFIX + name not in metadata and index < size and _is_control(vocabulary, index):
            named[name] = index
    return named


def _add_bos(
    metadata: Mapping[str, object], default: bool, named: Mapping[str, int], always: bool
) -> bool:
    """Whether a prompt begins with BOS; a file that asks for one must name it."""
    key = PREFIX + "add_bos_token"
    add_bos = read_flag(metadata, key, default) or always
    if add_bos and "bos_token_id" not in named:
        if key in metadata and not always:
            raise CheckpointError(f"{key} is true, but the file names no BOS token")
        return False
    return add_bos


def _is_control(vocabulary: Vocabulary, index: int) -> bool:
    return vocabulary.kinds[index] in (Kind.CONTROL, Kind.UNKNOWN)
