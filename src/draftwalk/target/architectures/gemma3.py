"""Gemma 3, text: sliding and full layers with a rope each, norms on both sides of sublayers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from draftwalk.target.blueprint import (
    Architecture,
    Blueprint,
    Export,
    LayerPlan,
    Sizes,
    is_tied,
)
from draftwalk.target.rope import rope_fields, rope_frequencies
from draftwalk.weights.dialect import Dialect, Key
from draftwalk.weights.fields import COUNT, FLAG, MAPPING, NUMBER, POSITIVE, TEXTS, Fields
from draftwalk.weights.gguf import GgufFile
from draftwalk.weights.gguf_values import Value
from draftwalk.weights.source import TensorSource

_PERIOD = 6  # every sixth layer sees everything, unless a file says otherwise
_THETA, _LOCAL_THETA = 1e6, 1e4  # rope bases of full and of sliding layers, likewise
_DEPTH_OF_27B = 62  # the one size whose query scalar is not its head size


def blueprint(config: Fields, tensors: TensorSource) -> Blueprint:
    """Reads the configuration."""
    sizes = Sizes.read(config)
    config.refuse_unless("hidden_activation", "gelu_pytorch_tanh")
    config.refuse_unless("use_bidirectional_attention", False)
    window = config.need("sliding_window", COUNT)
    period = config.get("_sliding_window_pattern", COUNT, _PERIOD)  # newer files' name
    period = config.get("sliding_window_pattern", COUNT, period)
    types = config.get("layer_types", TEXTS, None) or [
        "sliding_attention" if (layer + 1) % period else "full_attention"
        for layer in range(sizes.depth)
    ]
    if len(types) != sizes.depth or set(types) - {"sliding_attention", "full_attention"}:
        config.fail(f"layer_types does not name the {sizes.depth} layers full or sliding attention")
    bias = config.get("attention_bias", FLAG, False)
    return Blueprint(
        sizes=sizes,
        layers=tuple(
            LayerPlan(window, 1) if kind == "sliding_attention" else LayerPlan(None, 0)
            for kind in types
        ),
        ropes=(
            rope_frequencies(rope_fields(config, "full_attention"), sizes.head_dim, _THETA),
            rope_frequencies(_local_rope(config), sizes.head_dim),
        ),
        tied=is_tied(config, tensors, default=True),
        activation="gelu_tanh",
        attention_scale=config.get("query_pre_attn_scalar", POSITIVE, 256.0) ** -0.5,
        attention_softcap=config.get("attn_logit_softcapping", POSITIVE, None),
        softcap=config.get("final_logit_softcapping", POSITIVE, None),
        norm_offset=config.get("norm_offset", NUMBER, 1.0),
        embedding_scale=math.sqrt(sizes.width),
        qk_norm=True,
        qkv_bias=bias,
        output_bias=bias,
        post_norms=True,
    )


def _local_rope(config: Fields) -> Fields:
    """The rope of sliding layers: its own base, and none of the scaling of the full layers."""
    own = config.table("rope_parameters").get("sliding_attention", MAPPING, {})
    theta = config.get("rope_local_base_freq", POSITIVE, _LOCAL_THETA)
    return Fields({"rope_theta": theta, **own}, f"{config.where} rope of sliding layers")


def derive(file: GgufFile, config: Mapping[str, object]) -> Mapping[str, object]:
    """What GGUF leaves unsaid, as llama.cpp decides it: the query scalar follows from the sizes."""
    sizes = Sizes.read(Fields(config, file.name))
    uncommon = sizes.depth == _DEPTH_OF_27B
    return {
        "query_pre_attn_scalar": sizes.width // sizes.heads if uncommon else sizes.head_dim,
        "norm_offset": 0.0,  # files store the sum
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }


def settings(config: Fields) -> Mapping[str, Value]:
    """Its own keys in GGUF."""
    own: dict[str, Value] = {
        "attention.sliding_window": config.need("sliding_window", COUNT),
        "rope.freq_base_swa": _local_rope(config).need("rope_theta", POSITIVE),
    }
    cap = config.get("final_logit_softcapping", POSITIVE, None)
    return own if cap is None else {**own, "final_logit_softcapping": cap}


_LAYER = "model.layers.{i}"

ARCHITECTURE = Architecture(
    names=("gemma3_text",),
    dialect=Dialect(
        "gemma3",
        "Gemma3ForCausalLM",
        "gemma3_text",
        tensors={
            "blk.{i}.post_attention_norm.weight": f"{_LAYER}.post_attention_layernorm.weight",
            "blk.{i}.ffn_norm.weight": f"{_LAYER}.pre_feedforward_layernorm.weight",
            "blk.{i}.post_ffw_norm.weight": f"{_LAYER}.post_feedforward_layernorm.weight",
        },
        keys={
            "attention.sliding_window": Key(COUNT, "sliding_window", required=True),
            "rope.freq_base_swa": Key(POSITIVE, "rope_local_base_freq"),
            "final_logit_softcapping": Key(POSITIVE, "final_logit_softcapping"),
        },
        derive=derive,
    ),
    blueprint=blueprint,
    export=Export(settings=settings, norm_shift=1.0, theta=_THETA),
)
