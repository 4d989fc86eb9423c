"""Qwen3, dense: Llama's shape with a norm on every head of q and k."""

from __future__ import annotations

from draftwalk.target.blueprint import (
    Architecture,
    Blueprint,
    Sizes,
    full_attention,
    is_tied,
)
from draftwalk.target.rope import rope_fields, rope_frequencies
from draftwalk.weights.dialect import Dialect
from draftwalk.weights.fields import FLAG, Fields
from draftwalk.weights.source import TensorSource


def blueprint(config: Fields, tensors: TensorSource) -> Blueprint:
    """Reads the configuration."""
    sizes = Sizes.read(config)
    config.refuse_unless("hidden_act", "silu")
    config.ignore("sliding_window")  # use_sliding_window decides
    bias = config.get("attention_bias", FLAG, False)
    return Blueprint(
        sizes=sizes,
        layers=full_attention(config, sizes),
        ropes=(rope_frequencies(rope_fields(config), sizes.head_dim),),
        tied=is_tied(config, tensors),
        qk_norm=True,
        qkv_bias=bias,
        output_bias=bias,
    )


ARCHITECTURE = Architecture(
    names=("qwen3",),
    dialect=Dialect("qwen3", "Qwen3ForCausalLM", "qwen3"),
    blueprint=blueprint,
)
