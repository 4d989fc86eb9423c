"""Random targets as Hugging Face folders, of a width that blocks of 32 divide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

Config = dict[str, object]

WIDTH, HEADS, KV_HEADS, HEAD_DIM, MLP, DEPTH, VOCABULARY = 64, 4, 2, 16, 96, 2, 160

_COMMON: Config = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": MLP,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-06,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LLAMA3_ROPE: Config = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CONFIGS: dict[str, Config] = {
    "llama": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    },
    "llama-rope3": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "rope_theta": 20000.0,
        "rope_scaling": _LLAMA3_ROPE,
        "tie_word_embeddings": True,
    },
    "llama-biased": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
        "attention_bias": True,
        "tie_word_embeddings": True,
    },
    "qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
    },
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "rope_theta": 1000000,
        "tie_word_embeddings": False,
    },
    "gemma3": {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "num_hidden_layers": 7,
        "query_pre_attn_scalar": HEAD_DIM,
        "sliding_window": 8,
        "rope_theta": 100000.0,
        "rope_local_base_freq": 1000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "final_logit_softcapping": 20.0,
    },
}
PROMPT = [int(i) for i in np.random.default_rng(5).integers(3, VOCABULARY, 40)]


def write_hf_target(folder: Path, name: str, dtype: torch.dtype, **changes: object) -> Path:
    """One of CONFIGS with random weights; the same ones every time."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**_COMMON, **CONFIGS[name], **changes}
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(sorted(CONFIGS).index(name))
    tensors = {}
    for tensor, shape in _shapes(config).items():
        values = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
        if tensor.endswith("norm.weight"):
            centre = 0.0 if config["model_type"] == "gemma3_text" else 1.0
            values = centre + 0.25 * values
        elif tensor.endswith("bias") or "embed_tokens" in tensor:
            values = 0.5 * values
        else:
            values = values * (1.5 / shape[-1] ** 0.5)
        tensors[tensor] = values.to(dtype)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _shapes(config: Config) -> dict[str, tuple[int, ...]]:
    kind, depth, vocabulary = (
        config[key] for key in ("model_type", "num_hidden_layers", "vocab_size")
    )
    assert isinstance(depth, int)
    assert isinstance(vocabulary, int)
    rows = {
        "q_proj": HEADS * HEAD_DIM,
        "k_proj": KV_HEADS * HEAD_DIM,
        "v_proj": KV_HEADS * HEAD_DIM,
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, WIDTH)}
    norms = ["input_layernorm", "post_attention_layernorm"]
    if kind == "gemma3_text":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for layer in range(depth):
        at = f"model.layers.{layer}."
        shapes |= {f"{at}{norm}.weight": (WIDTH,) for norm in norms}
        for part, size in rows.items():
            shapes[f"{at}self_attn.{part}.weight"] = (size, WIDTH)
            if kind == "qwen2" or config.get("attention_bias") is True:
                shapes[f"{at}self_attn.{part}.bias"] = (size,)
        shapes[f"{at}self_attn.o_proj.weight"] = (WIDTH, HEADS * HEAD_DIM)
        if config.get("attention_bias") is True:
            shapes[f"{at}self_attn.o_proj.bias"] = (WIDTH,)
        if kind in ("qwen3", "gemma3_text"):
            shapes |= {f"{at}self_attn.{n}_norm.weight": (HEAD_DIM,) for n in ("q", "k")}
        shapes |= {f"{at}mlp.{part}_proj.weight": (MLP, WIDTH) for part in ("gate", "up")}
        shapes[f"{at}mlp.down_proj.weight"] = (WIDTH, MLP)
    shapes["model.norm.weight"] = (WIDTH,)
    if config.get("tie_word_embeddings") is False:
        shapes["lm_head.weight"] = (vocabulary, WIDTH)
    return shapes
