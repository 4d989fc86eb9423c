"""Qwen2 and Qwen2.5: Llama's shape with biases on q, k and v."""

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
from draftwalk.weights.fields import Fields
from draftwalk.weights.source import TensorSource


def blueprint(config: Fields, tensors: TensorSource) -> Blueprint:
    """Reads the configuration."""
    sizes = Sizes.read(config)
    config.refuse_unless("hidden_act", "silu")
    config.ignore("sliding_window")  # use_sliding_window decides
    config.ignore("attention_bias")  # q, k and v always have one, the output never
    return Blueprint(
        sizes=sizes,
        layers=full_attention(config, sizes),
        ropes=(rope_frequencies(rope_fields(config), sizes.head_dim),),
        tied=is_tied(config, tensors),
        qkv_bias=True,
    )


ARCHITECTURE = Architecture(
    names=("qwen2",),
    dialect=Dialect("qwen2", "Qwen2ForCausalLM", "qwen2"),
    blueprint=blueprint,
)
