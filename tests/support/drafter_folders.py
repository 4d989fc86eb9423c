"""Random drafters as Hugging Face folders, of every shape that conversion has to keep."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from draftwalk.quant import IntegerFormat, PackingFormat, formats_by_name
from draftwalk.weights import RawTensor, pack_integers, pack_tensor, write_safetensors
from support.models import MadeCheckpoint

V, DEPTH = 96, 9
SLIDING, FULL = "sliding_attention", "full_attention"
_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


@dataclass(frozen=True)
class Made:
    """A folder that was drawn: its configuration and tensors."""

    config: dict[str, object]
    tensors: dict[str, RawTensor]

    def write(self, folder: Path) -> Path:
        """As people have it: config.json beside model.safetensors."""
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(self.config, indent=1))
        write_safetensors(folder / "model.safetensors", [*self.tensors.values()])
        return folder


def floats(name: str) -> PackingFormat:
    """A format by name."""
    found = formats_by_name()[name]
    assert isinstance(found, PackingFormat)
    return found


def whole(name: str) -> IntegerFormat:
    """An integer format by name."""
    found = formats_by_name()[name]
    assert isinstance(found, IntegerFormat)
    return found


def random_drafter_folder(seed: int) -> Made:
    """A drafter of a shape that `seed` draws."""
    draw = random.Random(seed)
    version = draw.choice((1, 2))
    width, head_dim = draw.choice((32, 64, 96)), draw.choice((8, 16, 32))
    kv_heads = draw.choice((1, 2))
    layers = draw.choice((1, 2, 3))
    taps = draw.sample(range(DEPTH), draw.choice((1, 2, 3)))
    nested: dict[str, object] = {"mask_token_id": draw.randrange(V), "target_layer_ids": taps}
    top: dict[str, object] = {
        "architectures": ["DFlash2DraftModel" if version == 2 else "DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": width,
        "intermediate_size": draw.choice((40, 64, 96)),
        "num_hidden_layers": layers,
        "num_attention_heads": kv_heads * draw.choice((1, 2, 3)),
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": V,
        "num_target_layers": DEPTH,
        "hidden_act": "silu",
        "rms_norm_eps": draw.choice((1e-6, 1e-5)),
        "max_position_embeddings": draw.choice((128, 512)),
        "attention_bias": draw.random() < 0.2,
        "note_to_self": None,
    }
    dtype = draw.choice(("BF16", "F16", "F32"))
    top[draw.choice(("torch_dtype", "dtype"))] = _DTYPES[dtype]
    draw.choice((top, nested))["block_size"] = draw.choice((2, 7, 8, 16))
    if version == 2:
        nested |= {
            "conv_kernel_size": draw.choice((1, 2, 3)),
            "conv_group_size": draw.choice((1, 8, 16)),
            "selector_rank": draw.choice((1, 12, 32)),
            "selector_top_k": draw.choice((1, 4, 5)),
        }
    _draw_attention(draw, top, layers)
    _draw_scales(draw, top, nested)
    tensors = _tensors(draw, seed, {**top, **nested}, dtype)
    if "d2t" in tensors:
        top["draft_vocab_size"] = tensors["d2t"].shape[0]
    if draw.random() < 0.2 and "d2t" not in tensors:
        top["draftwalk"] = {"draft_vocabulary": sorted(draw.sample(range(V), 30))}
    return Made({**top, "dflash_config": nested}, tensors)


def _draw_attention(draw: random.Random, top: dict[str, object], layers: int) -> None:
    kinds = [draw.choice((SLIDING, FULL)) for _ in range(layers)]
    if SLIDING in kinds:
        top |= {"layer_types": kinds, "sliding_window": draw.choice((3, 20)), "is_causal": None}
        if draw.random() < 0.5:
            top["use_sliding_window"] = True
    causal = draw.choice((None, True, False))
    if causal is not None or len(set(kinds)) > 1:  # GGUF says it of all layers at once
        top["is_causal"] = bool(causal)
    rope: dict[str, object] = {"rope_theta": draw.choice((10000.0, 1e6, 10000000))}
    scaling = {"rope_type": "linear", "factor": 2.5} if draw.random() < 0.3 else None
    if draw.random() < 0.5:
        top |= {**rope, "rope_scaling": scaling}
    else:
        top["rope_parameters"] = {**rope, **(scaling or {"rope_type": "default"})}
    if draw.random() < 0.2:
        top["rope_is_neox_style"] = False


def _draw_scales(draw: random.Random, top: dict[str, object], nested: dict[str, object]) -> None:
    for key, values in (
        ("output_multiplier", (0.4, 2.5)),
        ("input_embedding_scale", (0.25, 3)),
        ("final_logit_softcapping", (2.5, 30.0)),
    ):
        if draw.random() < 0.4:
            draw.choice((top, nested))[key] = draw.choice(values)


def _tensors(
    draw: random.Random, seed: int, config: Mapping[str, object], dtype: str
) -> dict[str, RawTensor]:
    rng = np.random.default_rng(seed)
    extra = draw.random()
    shapes = _shapes(config)
    tensors: dict[str, RawTensor] = {}
    if extra < 0.2:
        shapes["embed_tokens.weight"] = (V, _number(config, "hidden_size"))
        shapes["lm_head.weight"] = shapes["embed_tokens.weight"]
    elif extra < 0.4 and "selector_rank" not in config:
        ids = np.sort(rng.choice(V, 20, replace=False))
        shapes["lm_head.weight"] = (20, _number(config, "hidden_size"))
        tensors["d2t"] = pack_integers("d2t", ids - np.arange(20), whole("I64"))
        known = np.isin(np.arange(V), ids).astype(np.int64)
        tensors["t2d"] = pack_integers("t2d", known, whole("BOOL"))
    for name, shape in shapes.items():
        scale, offset = (0.3, 1.0) if len(shape) == 1 else (1.5 / np.sqrt(shape[-1]), 0.0)
        values = rng.standard_normal(shape) * scale + offset
        tensors[name] = pack_tensor(name, values.astype(np.float32), floats(dtype))
    return tensors


def _number(config: Mapping[str, object], key: str) -> int:
    value = config[key]
    assert isinstance(value, int)
    return value


def _shapes(config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    width, mlp = _number(config, "hidden_size"), _number(config, "intermediate_size")
    head_dim = _number(config, "head_dim")
    q = _number(config, "num_attention_heads") * head_dim
    kv = _number(config, "num_key_value_heads") * head_dim
    taps = config["target_layer_ids"]
    assert isinstance(taps, list)
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (width, len(taps) * width),
        "hidden_norm.weight": (width,),
        "norm.weight": (width,),
    }
    for n in range(_number(config, "num_hidden_layers")):
        at, mlp_at = f"layers.{n}.self_attn", f"layers.{n}.mlp"
        shapes |= {
            f"layers.{n}.input_layernorm.weight": (width,),
            f"layers.{n}.post_attention_layernorm.weight": (width,),
            f"{at}.q_proj.weight": (q, width),
            f"{at}.k_proj.weight": (kv, width),
            f"{at}.v_proj.weight": (kv, width),
            f"{at}.o_proj.weight": (width, q),
            f"{at}.q_norm.weight": (head_dim,),
            f"{at}.k_norm.weight": (head_dim,),
            f"{mlp_at}.gate_proj.weight": (mlp, width),
            f"{mlp_at}.up_proj.weight": (mlp, width),
            f"{mlp_at}.down_proj.weight": (width, mlp),
        }
        if config["attention_bias"]:
            sizes = {"q": q, "k": kv, "v": kv, "o": width}
            shapes |= {f"{at}.{part}_proj.bias": (size,) for part, size in sizes.items()}
        if "selector_rank" in config:
            taps_of_kernel = _number(config, "conv_kernel_size")
            rows = 2 * taps_of_kernel * width // _number(config, "conv_group_size")
            for conv in ("attention_conv", "mlp_conv"):
                shapes[f"layers.{n}.{conv}.base_kernel"] = (2, taps_of_kernel, width)
                shapes[f"layers.{n}.{conv}.kernel_projection.weight"] = (rows, width)
    if "selector_rank" in config:
        rank = _number(config, "selector_rank")
        shapes |= {
            "candidate_selector.predecessor_codebook": (V, rank),
            "candidate_selector.successor_codebook": (V, rank),
            "candidate_selector.hidden_projection.weight": (rank, width),
        }
    return shapes


def target_of(width: int, vocabulary: int = V, depth: int = DEPTH) -> MadeCheckpoint:
    """What a drafter's file takes from a target: embedding, head, depth."""
    rng = np.random.default_rng(width)
    names = ("model.embed_tokens.weight", "lm_head.weight")
    tensors = {
        name: pack_tensor(
            name, rng.standard_normal((vocabulary, width)).astype(np.float32), floats("BF16")
        )
        for name in names
    }
    config = {"num_hidden_layers": depth, "tie_word_embeddings": False, "vocab_size": vocabulary}
    return MadeCheckpoint(config, tensors, Path("some-target"), architecture="LlamaForCausalLM")
