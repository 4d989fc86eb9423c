"""Writes a drafter as a GGUF `dflash` file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from draftwalk.draft.dialect import DIALECT, FINGERPRINT_KEY
from draftwalk.draft.load import read_config
from draftwalk.errors import CheckpointError
from draftwalk.quant import PackingFormat
from draftwalk.target.rope import DEFAULT_THETA, rope_fields
from draftwalk.weights import (
    Checkpoint,
    Fields,
    RawTensor,
    Typed,
    name_map,
    pack_tensor,
    write_gguf,
)
from draftwalk.weights.fields import POSITIVE, TEXT
from draftwalk.weights.gguf_values import Value, ValueType

_SIDES = ("predecessor", "successor")


def embedding_fingerprint(embedding: RawTensor) -> str:
    """SHA-256 of an embedding as its file stores it: format, shape and bytes."""
    digest = hashlib.sha256(f"{embedding.format.NAME} {embedding.shape}".encode())
    digest.update(embedding.data.data)
    return digest.hexdigest()


def write_gguf_drafter(
    path: Path,
    checkpoint: Checkpoint,
    matrices: PackingFormat,
    vectors: PackingFormat,
    factors: Mapping[str, RawTensor],
    fingerprint: str,
) -> None:
    """Writes a DFlash2 drafter whose selector tables are factors of its target's embedding.

    Args:
        path: the file.
        checkpoint: the drafter; the selector's tables in it are left out.
        matrices: format of everything that is multiplied with rows.
        vectors: format of norms and convolution kernels.
        factors: "predecessor" and "successor" [rank, width], kept in their own format.
        fingerprint: of the embedding the factors belong to.
    """
    names = name_map(DIALECT)
    packed = []
    for name, raw in checkpoint.tensors.items():
        if name.endswith(("_codebook", "_factor")):
            continue
        gguf = names.gguf(name)
        if gguf is None:
            raise CheckpointError(f"tensor {name} has no place in a GGUF drafter")
        is_matrix = len(raw.shape) == 2 and not name.endswith("base_kernel")
        into = matrices if is_matrix else vectors
        if raw.shape[-1] % into.BLOCK:
            raise CheckpointError(
                f"tensor {name} has rows of {raw.shape[-1]}, {into.NAME} packs {into.BLOCK}"
            )
        packed.append(pack_tensor(gguf, raw.unpack(), into))
    for side in _SIDES:
        packed.append(replace(factors[side], name=f"selector_{side}_factor.weight"))
    write_gguf(path, {**_metadata(checkpoint), FINGERPRINT_KEY: fingerprint}, packed)


def _metadata(checkpoint: Checkpoint) -> dict[str, Value | Typed]:
    config = read_config(checkpoint)
    sizes, selector = config.sizes, config.selector
    assert selector is not None, "only DFlash2 drafters have factors"
    rope = rope_fields(Fields(checkpoint.config, checkpoint.path.name))
    plain = rope.get("rope_type", TEXT, rope.get("type", TEXT, "default")) == "default"
    if len(set(config.causal)) > 1 or any(config.windows) or config.interleaved or not plain:
        raise CheckpointError(
            "drafters with windows, mixed causality, interleaved or scaled rope are not packed"
        )
    own: dict[str, Value | Typed] = {
        "block_count": sizes.depth,
        "context_length": sizes.context,
        "embedding_length": sizes.width,
        "feed_forward_length": sizes.mlp_width,
        "vocab_size": sizes.vocabulary,
        "attention.head_count": sizes.heads,
        "attention.head_count_kv": sizes.kv_heads,
        "attention.key_length": sizes.head_dim,
        "attention.value_length": sizes.head_dim,
        "attention.layer_norm_rms_epsilon": sizes.norm_eps,
        "attention.causal": config.causal[0],
        "rope.freq_base": rope.get("rope_theta", POSITIVE, DEFAULT_THETA),
        "rope.dimension_count": sizes.head_dim,
        "target_layers": Typed(ValueType.INT32, [tap + 1 for tap in config.taps]),
        "block_size": config.block,
        "conv_kernel_size": selector.taps,
        "conv_group_size": selector.group,
        "selector_rank": selector.rank,
        "selector_top_k": selector.candidates,
        "logit_scale": float(config.multiplier),
        "embedding_scale": float(config.embedding_scale),
    }
    if config.softcap is not None:
        own["final_logit_softcapping"] = config.softcap
    return {
        "general.architecture": DIALECT.name,
        "general.type": "model",
        **{f"{DIALECT.name}.{key}": value for key, value in own.items()},
        "tokenizer.ggml.model": "none",
        "tokenizer.ggml.mask_token_id": config.mask,
    }
