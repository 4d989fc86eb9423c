"""The shape of a new drafter, and the values it starts from.

It has the tensors that every engine knows (fc, norms, layers with q/k norms, and for DFlash2
convolutions and a selector), and a config.json as Hugging Face folders have it. Heads, widths and
rope are the target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from draftwalk.draft.config import DrafterConfig
from draftwalk.errors import UserError
from draftwalk.quant import formats_by_name
from draftwalk.target.blueprint import Blueprint
from draftwalk.train.inherit import inherited
from draftwalk.train.model import FACTORS, GATE
from draftwalk.weights import Checkpoint
from draftwalk.weights.tensor import RawTensor

_DEVIATION = 0.02  # of random matrices, as public trainers start
_NORM_SHARE = 0.5  # of the target's final norm, where the drafter's own starts
_ROPE_KEYS = ("rope_theta", "rope_scaling", "rope_parameters")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a user may choose.

    Attributes:
        taps: target layers to listen to.
        layers: of the drafter.
        mlp: values inside its MLPs; the target's by default.
        block: rows of a block, the anchor included.
        mask: id of the mask token, one that texts never have.
        causal: rows of a block see only those before them.
        window: places a row looks back; `None` for all.
        dflash2: with convolutions and a selector.
        kernel: rows a convolution spans.
        group: channels that share its coefficients.
        rank: of the selector.
        candidates: of the selector.
    """

    taps: tuple[int, ...]
    layers: int = 3
    mlp: int | None = None
    block: int = 8
    mask: int = 16
    causal: bool = True
    window: int | None = None
    dflash2: bool = True
    kernel: int = 2
    group: int = 16
    rank: int = 128
    candidates: int = 16

    @staticmethod
    def of(config: DrafterConfig) -> Shape:
        """The shape of a drafter that is there."""
        shape = Shape(
            taps=config.taps,
            layers=config.sizes.depth,
            mlp=config.sizes.mlp_width,
            block=config.block,
            mask=config.mask,
            causal=all(config.causal),
            window=config.windows[0],
            dflash2=config.selector is not None,
        )
        if config.selector is None:
            return shape
        return replace(
            shape,
            kernel=config.selector.taps,
            group=config.selector.group,
            rank=config.selector.rank,
            candidates=config.selector.candidates,
        )


def new_config(shape: Shape, target: Checkpoint, depth: int) -> dict[str, object]:
    """config.json of a drafter of this shape.

    Args:
        shape: what was chosen.
        target: whose heads, widths and rope it has.
        depth: layers of the target.

    Raises:
        UserError: the shape does not fit the target.
    """
    told = target.config
    _check_taps(shape.taps, depth)
    own: dict[str, object] = {
        "block_size": shape.block,
        "mask_token_id": shape.mask,
        "target_layer_ids": list(shape.taps),
    }
    if shape.dflash2:
        own |= {
            "conv_kernel_size": shape.kernel,
            "conv_group_size": shape.group,
            "selector_rank": shape.rank,
            "selector_top_k": shape.candidates,
        }
    kind = "sliding_attention" if shape.window else "full_attention"
    heads = told["num_attention_heads"]
    assert isinstance(heads, int), "the target was read before"
    width = told["hidden_size"]
    assert isinstance(width, int), "the target was read before"
    config: dict[str, object] = {
        "architectures": ["DFlash2DraftModel" if shape.dflash2 else "DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": width,
        "intermediate_size": shape.mlp or told["intermediate_size"],
        "num_hidden_layers": shape.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": told.get("num_key_value_heads", heads),
        "head_dim": told.get("head_dim") or width // heads,
        "vocab_size": target.tensors["model.embed_tokens.weight"].shape[0],
        "hidden_act": "silu",
        "rms_norm_eps": told.get("rms_norm_eps", 1e-6),
        "max_position_embeddings": told["max_position_embeddings"],
        **{key: told[key] for key in _ROPE_KEYS if told.get(key) is not None},
        "attention_bias": False,
        "attention_dropout": 0.0,
        "layer_types": [kind] * shape.layers,
        "use_sliding_window": shape.window is not None,
        "sliding_window": shape.window,
        "is_causal": shape.causal,
        "tie_word_embeddings": "lm_head.weight" not in target.tensors,
        "num_target_layers": depth,
        "block_size": shape.block,
        "torch_dtype": "bfloat16",
        "dflash_config": own,
    }
    DrafterConfig.read(config, "the new drafter")
    return config


def _check_taps(taps: tuple[int, ...], depth: int) -> None:
    if not taps or max(taps) >= depth:
        raise UserError(f"taps {list(taps)} are not among the target's {depth} layers")
    if len(set(taps)) < len(taps):
        raise UserError(f"taps {list(taps)} name a layer twice", "name each layer once")


def new_tensors(
    config: DrafterConfig,
    target: Checkpoint,
    blueprint: Blueprint,
    generator: torch.Generator,
    inherit: bool = True,
) -> dict[str, RawTensor]:
    """Starting values: convolutions that change nothing, a selector that adds 0, and matrices.

    The final norm starts as half of the target's, which its head expects.

    Args:
        config: the drafter's.
        target: the checkpoint.
        blueprint: how it is built.
        generator: of random values.
        inherit: matrices are those of the target's last layers where they fit, else random.
    """
    s, made = config.sizes, dict[str, Tensor]()

    def matrix(name: str, rows: int, columns: int) -> None:
        made[name] = torch.randn(rows, columns, generator=generator) * _DEVIATION

    matrix("fc.weight", s.width, len(config.taps) * config.target_width)
    made["hidden_norm.weight"] = torch.ones(s.width)
    final = torch.from_numpy(target.tensors["model.norm.weight"].unpack())
    made["norm.weight"] = (final + blueprint.norm_offset) * _NORM_SHARE
    for n in range(s.depth):
        layer = f"layers.{n}"
        attention, mlp = f"{layer}.self_attn", f"{layer}.mlp"
        matrix(f"{attention}.q_proj.weight", s.heads * s.head_dim, s.width)
        matrix(f"{attention}.k_proj.weight", s.kv_heads * s.head_dim, s.width)
        matrix(f"{attention}.v_proj.weight", s.kv_heads * s.head_dim, s.width)
        matrix(f"{attention}.o_proj.weight", s.width, s.heads * s.head_dim)
        matrix(f"{mlp}.gate_proj.weight", s.mlp_width, s.width)
        matrix(f"{mlp}.up_proj.weight", s.mlp_width, s.width)
        matrix(f"{mlp}.down_proj.weight", s.width, s.mlp_width)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            made[f"{layer}.{norm}.weight"] = torch.ones(s.width)
        for norm in ("q_norm", "k_norm"):
            made[f"{attention}.{norm}.weight"] = torch.ones(s.head_dim)
    if config.selector is not None:
        made |= _of_dflash2(config, generator)
    if inherit:
        made = inherited(config, target, blueprint, made)
    return {name: float_tensor(name, values) for name, values in made.items()}


def float_tensor(name: str, values: Tensor) -> RawTensor:
    """Values as a float32 tensor of a checkpoint."""
    array = values.detach().cpu().contiguous().float().numpy()
    data = array.reshape(-1).view("uint8")
    return RawTensor(name, tuple(values.shape), formats_by_name()["F32"], data)


def _of_dflash2(config: DrafterConfig, generator: torch.Generator) -> Mapping[str, Tensor]:
    s, selector = config.sizes, config.selector
    assert selector is not None
    made: dict[str, Tensor] = {}
    for n in range(s.depth):
        for conv in ("attention_conv", "mlp_conv"):
            base = torch.zeros(2, selector.taps, s.width)
            base[:, 0] = 1.0
            made[f"layers.{n}.{conv}.base_kernel"] = base
            rows = 2 * selector.taps * (s.width // selector.group)
            made[f"layers.{n}.{conv}.kernel_projection.weight"] = torch.zeros(rows, s.width)
    shape = (selector.rank, s.width)
    made[GATE] = torch.randn(shape, generator=generator) * _DEVIATION
    made[FACTORS[0]] = torch.randn(shape, generator=generator) * s.width**-0.5
    made[FACTORS[1]] = torch.zeros(shape)
    return made
