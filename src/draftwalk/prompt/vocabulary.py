"""What a model file says about its tokens, checked before anything is built from it.

The metadata comes from an untrusted file: every array is checked for type and length, every id for
range, and a key of the tokenizer's namespace that is not known is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from draftwalk.errors import CheckpointError

PREFIX = "tokenizer.ggml."
NO_TOKEN = (-1, 0xFFFFFFFF)  # how converters write "there is no such token"
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")

# Keys that are read in this room or by a checkpoint's reader, and keys that change nothing for the
# kinds of tokenizer supported.
KNOWN_KEYS = frozenset(
    PREFIX + name
    for name in (
        *("model", "pre", "tokens", "token_type", "scores", "merges", "token_type_count"),
        *("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id"),
        *("seperator_token_id", "separator_token_id", "padding_token_id", "cls_token_id"),
        *("mask_token_id", "fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id"),
        *("fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"),
        *("prefix_token_id", "suffix_token_id", "middle_token_id"),
        *("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix"),
        *("remove_extra_whitespaces", "precompiled_charsmap", "suppress_tokens"),
        *("normalizer.lowercase", "normalizer.strip_accents"),
    )
)


class Kind(IntEnum):
    """Token types as GGUF numbers them."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """Token texts and kinds, indexed by id.

    Args:
        tokens: the text of each token as the file spells it.
        kinds: the kind of each token.
        byte_level: True when tokens are spelled in the byte alphabet of GPT-2, False when they are
            plain text with ▁ for a space.
    """

    tokens: Sequence[str]
    kinds: Sequence[int]
    byte_level: bool

    def __post_init__(self) -> None:
        _refuse_empty(self.tokens)
        for index, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True)):
            if kind == Kind.BYTE and not BYTE_TOKEN.fullmatch(token):
                raise CheckpointError(
                    f"token {index} is typed as a byte but spelled {token!r}, not <0x00> to <0xFF>"
                )

    def ids(self) -> dict[str, int]:
        """Text to id; two tokens of the same text are refused (an empty text is no token)."""
        ids = {token: index for index, token in enumerate(self.tokens)}
        if len(ids) != len(self.tokens):
            first: dict[str, int] = {}
            for index, token in enumerate(self.tokens):
                if token and token in first:
                    raise CheckpointError(
                        f"tokens {first[token]} and {index} are both {token!r}",
                        "the vocabulary is damaged; convert the model again",
                    )
                first[token] = index
        ids.pop("", None)
        return ids


def read_vocabulary(metadata: Mapping[str, object], byte_level: bool) -> Vocabulary:
    """The vocabulary of a GGUF file."""
    refuse_unknown_keys(metadata)
    tokens = read_strings(metadata, PREFIX + "tokens")
    _refuse_empty(tokens)
    key = PREFIX + "token_type"
    if key in metadata:
        numbers = read_numbers(metadata, key, "iu", len(tokens))
        known = np.where((numbers >= 0) & (numbers <= max(Kind)), numbers, int(Kind.UNDEFINED))
        kinds: Sequence[int] = known.tolist()
    elif byte_level:
        kinds = [int(Kind.NORMAL)] * len(tokens)
    else:
        raise CheckpointError(f"{key} is missing", "without it byte tokens cannot be told apart")
    return Vocabulary(tokens, kinds, byte_level)


def refuse_unknown_keys(metadata: Mapping[str, object]) -> None:
    """A tokenizer key that nobody here reads would otherwise silently change the ids."""
    for key in metadata:
        if key.startswith(PREFIX) and key not in KNOWN_KEYS:
            raise CheckpointError(f"the tokenizer key {key} is not implemented")


def read_strings(metadata: Mapping[str, object], key: str) -> list[str]:
    """A required array of strings."""
    value = metadata.get(key)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise CheckpointError(f"{key} must be an array of strings, not {_name(value)}")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise CheckpointError(f"{key}[{index}] must be a string, not {_name(item)}")
    return list(value)


def read_numbers(
    metadata: Mapping[str, object], key: str, kinds: str, count: int
) -> np.ndarray[tuple[int], np.dtype[np.float64 | np.int64]]:
    """A required array of `count` numbers whose numpy kind is one of `kinds` (i, u, f)."""
    value = metadata.get(key)
    if not isinstance(value, list | tuple | np.ndarray):
        raise CheckpointError(f"{key} must be an array of numbers, not {_name(value)}")
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        raise CheckpointError(f"{key} must be an array of numbers") from None
    if array.ndim != 1 or array.dtype.kind not in kinds:
        wanted = "integers" if "f" not in kinds else "numbers"
        raise CheckpointError(f"{key} must be an array of {wanted}, not of {array.dtype}")
    if len(array) != count:
        raise CheckpointError(f"{key} has {len(array)} entries, but there are {count} tokens")
    return array.astype(np.float64 if "f" in kinds else np.int64)


def read_flag(metadata: Mapping[str, object], key: str, default: bool) -> bool:
    """An optional boolean."""
    value = metadata.get(key, default)
    if not isinstance(value, bool | np.bool_):
        raise CheckpointError(f"{key} must be true or false, not {value!r}")
    return bool(value)


def read_string(metadata: Mapping[str, object], key: str) -> str | None:
    """An optional string."""
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        raise CheckpointError(f"{key} must be a string, not {_name(value)}")
    return value


def read_id(metadata: Mapping[str, object], key: str, size: int) -> int | None:
    """An optional token id; None when the file names no token."""
    value = metadata.get(key)
    if value is None:
        return None
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise CheckpointError(f"{key} must be a token id, not {value!r}")
    if int(value) in NO_TOKEN:
        return None
    if not 0 <= value < size:
        raise CheckpointError(f"{key} is {value}, but the vocabulary has {size} tokens")
    return int(value)


def _refuse_empty(tokens: Sequence[str]) -> None:
    if not tokens:
        raise CheckpointError("the tokenizer has an empty vocabulary")


def _name(value: object) -> str:
    return "missing" if value is None else type(value).__name__
