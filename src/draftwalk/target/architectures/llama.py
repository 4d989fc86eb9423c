"""Llama 1 to 3 and what shares its shape (SmolLM2, Mistral's dense models without a window)."""

from __future__ import annotations

from collections.abc import Mapping

from draftwalk.target.blueprint import (
    Architecture,
    Blueprint,
    Sizes,
    full_attention,
    is_tied,
)
from draftwalk.target.rope import half_split_order, rope_fields, rope_frequencies
from draftwalk.weights.dialect import Dialect
from draftwalk.weights.fields import FLAG, Fields
from draftwalk.weights.source import TensorSource
from draftwalk.weights.tensor import RawTensor, permute_rows


def blueprint(config: Fields, tensors: TensorSource) -> Blueprint:
    """Reads the configuration."""
    sizes = Sizes.read(config)
    config.refuse_unless("hidden_act", "silu")
    config.refuse_unless("sliding_window")
    inverse = rope_frequencies(rope_fields(config), sizes.head_dim)
    # GGUF stores Llama 3's scaling as one divisor per frequency.
    factors = tensors.take_optional("rope_freqs.weight", (sizes.head_dim // 2,))
    if factors is not None:
        inverse = inverse / inverse.new_tensor(factors.unpack())
    bias = config.get("attention_bias", FLAG, False)
    return Blueprint(
        sizes=sizes,
        layers=full_attention(config, sizes),
        ropes=(inverse,),
        tied=is_tied(config, tensors),
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=config.get("mlp_bias", FLAG, False),
    )


def unpermute(raw: RawTensor, config: Mapping[str, object]) -> RawTensor:
    """Puts q and k rows back into half-split order; GGUF keeps them for adjacent-pair rotation."""
    sizes = Sizes.read(Fields(config, raw.name))
    if raw.name.endswith(("q_proj.weight", "q_proj.bias")):
        heads = sizes.heads
    elif raw.name.endswith(("k_proj.weight", "k_proj.bias")):
        heads = sizes.kv_heads
    else:
        return raw
    if raw.shape[0] != heads * sizes.head_dim:
        return raw  # the builder will name the wrong shape
    return permute_rows(raw, half_split_order(heads, sizes.head_dim))


ARCHITECTURE = Architecture(
    names=("llama",),
    dialect=Dialect("llama", "LlamaForCausalLM", "llama", adapt=unpermute),
    blueprint=blueprint,
)
