"""GGUF files of drafters that were made for a test, written key by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from draftwalk.draft.dialect import DIALECT
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.quant.integers import I64
from draftwalk.weights import (
    RawTensor,
    Typed,
    name_map,
    pack_integers,
    pack_tensor,
    write_gguf,
)
from draftwalk.weights.gguf_values import Value, ValueType
from support.models import MadeCheckpoint

Keys = Mapping[str, Value | Typed | None]
SELECTOR_KEYS = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")


def gguf_keys(made: MadeCheckpoint) -> dict[str, Value | Typed]:
    """The file's keys, as llama.cpp's own converter would write them."""
    config = made.config
    own = config["dflash_config"]
    assert isinstance(own, dict)
    keys: dict[str, Value | Typed] = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "vocab_size": config["vocab_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": 10000.0,
        "rope.dimension_count": config["head_dim"],
        "target_layers": Typed(ValueType.INT32, [tap + 1 for tap in own["target_layer_ids"]]),
        "block_size": own["block_size"],
    }
    keys |= {key: own[key] for key in SELECTOR_KEYS if key in own}
    return {
        "general.architecture": "dflash",
        **{f"dflash.{key}": value for key, value in keys.items()},
        "tokenizer.ggml.model": "none",
        "tokenizer.ggml.mask_token_id": own["mask_token_id"],
    }


def gguf_tensors(made: MadeCheckpoint) -> dict[str, RawTensor]:
    """The file's tensors by their names in it."""
    names = name_map(DIALECT)
    found: dict[str, RawTensor] = {}
    for name, raw in made.tensors.items():
        gguf = names.gguf(name)
        assert gguf is not None, name
        if name == "d2t":  # in a file, the ids themselves
            ids = raw.integers() + np.arange(len(raw.integers()))
            raw = pack_integers(gguf, ids, I64())
        found[gguf] = replace(raw, name=gguf)
    return found


def write_drafter(
    path: Path,
    made: MadeCheckpoint,
    keys: Keys | None = None,
    tensors: Mapping[str, RawTensor | None] | None = None,
) -> Path:
    """The file; keys without `dflash.` where they have no other room. `None` leaves one out."""
    changes = {
        key if key.startswith(("tokenizer.", "general.", "draftwalk.")) else f"dflash.{key}": value
        for key, value in (keys or {}).items()
    }
    metadata = {**gguf_keys(made), **changes}
    all_tensors = {**gguf_tensors(made), **(tensors or {})}
    write_gguf(
        path,
        {key: value for key, value in metadata.items() if value is not None},
        [raw for raw in all_tensors.values() if raw is not None],
    )
    return path


def floats(name: str, *shape: int, seed: int = 5) -> RawTensor:
    """A tensor of random numbers."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return pack_tensor(name, values, F32)
