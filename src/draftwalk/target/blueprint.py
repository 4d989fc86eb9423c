"""What distinguishes one decoder architecture from another, as data.

An architecture's file turns a checkpoint's configuration into a `Blueprint`; `decoder.py` builds
and runs it. Everything here is a dimension, a constant or the presence of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.ops import Activation
from draftwalk.target.rope import DEFAULT_THETA
from draftwalk.weights.dialect import Dialect
from draftwalk.weights.fields import COUNT, FLAG, HEAD, LAYERS, POSITIVE, Fields
from draftwalk.weights.gguf_values import Value
from draftwalk.weights.source import TensorSource
from draftwalk.weights.tensor import RawTensor


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """One layer: its window (`None` for full attention) and which rope it turns by."""

    window: int | None = None
    rope: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Dimensions every decoder has: V, H, most positions, N, G, D, rows of gate and up."""

    vocabulary: int
    width: int
    context: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    depth: int
    norm_eps: float

    @staticmethod
    def read(config: Fields) -> Sizes:
        """Reads Hugging Face's keys."""
        width = config.need("hidden_size", COUNT)
        heads = config.need("num_attention_heads", COUNT)
        kv_heads = config.get("num_key_value_heads", COUNT, heads)
        head_dim = config.get("head_dim", HEAD, width // heads)
        if heads % kv_heads:
            config.fail(f"{heads} heads are no multiple of {kv_heads} key/value heads")
        if head_dim % 2:
            config.fail(f"head_dim {head_dim} is odd, rope turns pairs")
        return Sizes(
            vocabulary=config.need("vocab_size", COUNT),
            width=width,
            context=config.need("max_position_embeddings", COUNT),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            mlp_width=config.need("intermediate_size", COUNT),
            depth=config.need("num_hidden_layers", LAYERS),
            norm_eps=config.get("rms_norm_eps", POSITIVE, 1e-6),
        )


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A decoder of pre-norm blocks with gated MLPs.

    Attributes:
        sizes: dimensions.
        layers: one plan a layer.
        ropes: inverse frequencies [D / 2] of each rope, float64.
        tied: the head is the embedding.
        activation: of the gate.
        attention_scale: factor on q·k; `None` for D^-0.5.
        attention_softcap, softcap: caps of attention scores and of logits.
        norm_offset: added to every norm weight as stored (1 where files store them zero-centred).
        embedding_scale: factor on looked-up embeddings.
        qk_norm: heads of q and k are normed before rope.
        qkv_bias, output_bias, mlp_bias: which linears have one.
        post_norms: outputs of attention and MLP are normed before they are added.
    """

    sizes: Sizes
    layers: tuple[LayerPlan, ...]
    ropes: tuple[Tensor, ...]
    tied: bool
    activation: Activation = "silu"
    attention_scale: float | None = None
    attention_softcap: float | None = None
    softcap: float | None = None
    norm_offset: float = 0.0
    embedding_scale: float = 1.0
    qk_norm: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    post_norms: bool = False


Vectors = Mapping[str, NDArray[np.float32]]


def _no_settings(config: Fields) -> Mapping[str, Value]:
    return {}


def _no_order(raw: RawTensor, sizes: Sizes) -> NDArray[np.intp] | None:
    return None


def _no_vectors(config: Fields, sizes: Sizes) -> Vectors:
    return {}


@dataclass(frozen=True, slots=True)
class Export:
    """How a GGUF file of an architecture is written, beyond what all have in common.

    Attributes:
        settings: its own keys, by what follows `<name>.`.
        order: in which order a tensor's rows are stored: the inverse of the dialect's `adapt`.
        norm_shift: what is added to the weights of norms.
        vectors: further tensors, by canonical name.
        theta: the base of rope where a configuration leaves it out.
    """

    settings: Callable[[Fields], Mapping[str, Value]] = _no_settings
    order: Callable[[RawTensor, Sizes], NDArray[np.intp] | None] = _no_order
    norm_shift: float = 0.0
    vectors: Callable[[Fields, Sizes], Vectors] = _no_vectors
    theta: float = DEFAULT_THETA


@dataclass(frozen=True, slots=True)
class Architecture:
    """One declaration.

    Attributes:
        names: `model_type` of the configurations it understands.
        dialect: how its GGUF files name things; also gives the GGUF architecture's name.
        blueprint: from a configuration; may take tensors that are part of it (rope factors).
        export: how its GGUF files are written.
    """

    names: tuple[str, ...]
    dialect: Dialect
    blueprint: Callable[[Fields, TensorSource], Blueprint]
    export: Export = field(default_factory=Export)


def is_tied(config: Fields, tensors: TensorSource, default: bool = False) -> bool:
    """Whether the head is the embedding; a copy that is stored all the same is passed over."""
    tied = config.get("tie_word_embeddings", FLAG, default)
    if tied and "lm_head.weight" in tensors:
        tensors.drop("lm_head.weight")
    return tied


def full_attention(config: Fields, sizes: Sizes) -> tuple[LayerPlan, ...]:
    """Plans of layers that all see everything; a configuration that says otherwise is refused."""
    config.refuse_unless("use_sliding_window", False)
    config.refuse_unless("layer_types", ["full_attention"] * sizes.depth)
    config.ignore("max_window_layers")  # which layers would slide
    return (LayerPlan(),) * sizes.depth
