"""Llama 1 to 3 and what shares its shape (SmolLM2, Mistral's dense models without a window)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from draftwalk.target.blueprint import (
    Architecture,
    Blueprint,
    Export,
    Sizes,
    Vectors,
    full_attention,
    is_tied,
)
from draftwalk.target.rope import half_split_order, rope_divisors, rope_fields, rope_frequencies
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
    heads = _turned_heads(raw, sizes)
    return raw if heads is None else permute_rows(raw, half_split_order(heads, sizes.head_dim))


def permuted(raw: RawTensor, sizes: Sizes) -> NDArray[np.intp] | None:
    """The other way."""
    heads = _turned_heads(raw, sizes)
    return None if heads is None else np.argsort(half_split_order(heads, sizes.head_dim))


def _turned_heads(raw: RawTensor, sizes: Sizes) -> int | None:
    """How many heads the rows of a tensor are, if rope turns them."""
    if raw.name.endswith(("q_proj.weight", "q_proj.bias")):
        heads = sizes.heads
    elif raw.name.endswith(("k_proj.weight", "k_proj.bias")):
        heads = sizes.kv_heads
    else:
        return None
    # Of a wrong shape: the builder will name it.
    return heads if raw.shape[0] == heads * sizes.head_dim else None


def factors(config: Fields, sizes: Sizes) -> Vectors:
    """Llama 3's scaling of rope as GGUF has it: a divisor for each frequency."""
    divisors = rope_divisors(rope_fields(config), sizes.head_dim)
    return {} if divisors is None else {"rope_freqs.weight": divisors.float().numpy()}


ARCHITECTURE = Architecture(
    names=("llama",),
    dialect=Dialect("llama", "LlamaForCausalLM", "llama", adapt=unpermute),
    blueprint=blueprint,
    export=Export(order=permuted, vectors=factors),
)
