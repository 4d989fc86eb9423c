"""The tiny random target models that are recorded: one entry per kind of target.

A config is written as published checkpoints have it: older ones carry `rope_theta` and
`rope_scaling`, later ones `rope_parameters`. Every entry names changes of the config that must
change its logits, so that a reader which ignores a key cannot pass unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Config = dict[str, object]


@dataclass(frozen=True)
class Shape:
    """One tiny target.

    Args:
        name: the folder's name.
        config: the whole of config.json.
        seed: of the random weights.
        stored: type of the weights in the safetensors file; values are rounded to it first, so that
            both files and the recorded outputs have the same weights.
        gguf: whether a GGUF file can say all that the config says.
        shards: whether the safetensors file is split in several, with an index.
        ablations: changes of the config that must show in the logits.
    """

    name: str
    config: Config
    seed: int
    stored: str = "bfloat16"
    gguf: bool = True
    shards: bool = False
    ablations: tuple[Config, ...] = field(default=())


def _llama(**changes: object) -> Config:
    config: Config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 160,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_act": "silu",
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "pretraining_tp": 1,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    }
    return _changed(config, changes)


def _qwen(architecture: str, model_type: str, **changes: object) -> Config:
    config: Config = {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": 160,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "max_position_embeddings": 256,
        "max_window_layers": 3,
        "rms_norm_eps": 1e-06,
        "use_sliding_window": False,
        "sliding_window": None,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    }
    return _changed(config, changes)


def _gemma3(**changes: object) -> Config:
    config: Config = {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "vocab_size": 160,
        "hidden_size": 48,
        "intermediate_size": 40,
        "num_hidden_layers": 7,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-06,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "query_pre_attn_scalar": 16,
        "sliding_window": 8,
        "tie_word_embeddings": True,
        "bos_token_id": 2,
        "eos_token_id": [1, 106],
        "pad_token_id": 0,
        "torch_dtype": "float32",
    }
    return _changed(config, changes)


def _changed(config: Config, changes: Config) -> Config:
    """Apply `changes`; a change to the word 'absent' takes the key away."""
    merged = {**config, **changes}
    return {key: value for key, value in merged.items() if value != "absent"}


_LLAMA3_ROPE: Config = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # So small that of the 8 rotations some fall on each side of the ramp, and one on it.
    "original_max_position_embeddings": 32,
}
_GEMMA_ROPE: Config = {
    "full_attention": {"rope_type": "default", "rope_theta": 100000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
}

SHAPES: tuple[Shape, ...] = (
    Shape(
        "llama",
        _llama(),
        seed=1,
        stored="float32",
        ablations=({"rope_theta": 500.0}, {"rms_norm_eps": 0.1}),
    ),
    Shape(
        # As Llama 3.2: tied, with the rope scaling that a GGUF file stores as rope_freqs.weight.
        "llama-rope3",
        _llama(rope_scaling=_LLAMA3_ROPE, tie_word_embeddings=True),
        seed=2,
        ablations=({"rope_scaling": None},),
    ),
    Shape(
        # As SmolLM2: no head_dim key, 3 heads over 1, tied, another rope base.
        "llama-tied",
        _llama(
            head_dim="absent",
            num_attention_heads=3,
            num_key_value_heads=1,
            num_hidden_layers=4,
            rope_theta=100000,
            tie_word_embeddings=True,
        ),
        seed=3,
        ablations=({"rope_theta": 500.0},),
    ),
    Shape(
        "qwen2",
        _qwen(
            "Qwen2ForCausalLM",
            "qwen2",
            num_attention_heads=3,
            num_key_value_heads=1,
            rope_theta=1000000.0,
            tie_word_embeddings=True,
        ),
        seed=4,
        stored="float16",
        ablations=({"rope_theta": 500.0},),
    ),
    Shape(
        "qwen3",
        _qwen(
            "Qwen3ForCausalLM",
            "qwen3",
            head_dim=16,
            attention_bias=False,
            rope_theta=1000000,
            rope_scaling=None,
        ),
        seed=5,
        shards=True,
        ablations=({"rope_theta": 500.0},),
    ),
    Shape(
        "qwen3-tied",
        _qwen(
            "Qwen3ForCausalLM",
            "qwen3",
            head_dim=24,
            num_attention_heads=3,
            num_key_value_heads=3,
            attention_bias=False,
            rope_parameters={"rope_type": "default", "rope_theta": 20000.0},
            layer_types=["full_attention"] * 3,
            tie_word_embeddings=True,
        ),
        seed=6,
        ablations=({"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},),
    ),
    Shape(
        # As Gemma 3 4B: the classic keys, linear scaling on the full layers only.
        "gemma3",
        _gemma3(
            rope_theta=100000.0,
            rope_local_base_freq=1000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
            sliding_window_pattern=6,
        ),
        seed=7,
        ablations=(
            {"sliding_window": 64},
            {"rope_scaling": None},
            {"rope_local_base_freq": 100000.0},
            {"rope_theta": 1000.0},
            {"sliding_window_pattern": 3},
        ),
    ),
    Shape(
        # What a GGUF file cannot say: a query scale of its own, another order of the layers.
        "gemma3-scalar",
        _gemma3(
            num_hidden_layers=4,
            query_pre_attn_scalar=40,
            final_logit_softcapping=6.0,
            rope_parameters=_GEMMA_ROPE,
            layer_types=["sliding_attention", "full_attention"] * 2,
        ),
        seed=8,
        gguf=False,
        ablations=(
            {"query_pre_attn_scalar": 16},
            {"final_logit_softcapping": None},
            {"layer_types": ["sliding_attention"] * 4},
            {"rope_parameters": dict.fromkeys(_GEMMA_ROPE, _GEMMA_ROPE["full_attention"])},
        ),
    ),
)
