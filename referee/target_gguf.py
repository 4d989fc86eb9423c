"""Write a target's weights as the GGUF file that llama.cpp's converter would make of them, in F32.

Metadata keys, tensor names, the order of q and k rows, the shifted Gemma norms and the rope factors
follow that converter; the vocabulary is left out (tokenizer model `none`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import torch

Config = Mapping[str, object]

_ARCHITECTURES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma3_text": "gemma3",
}
_GLOBAL_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
# Gemma has norms after both parts of a layer, so the same word means another norm there.
_GEMMA_LAYER_NAMES = {
    **_LAYER_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def write_target_gguf(path: Path, config: Config, weights: Mapping[str, torch.Tensor]) -> None:
    """Write one GGUF file from a config.json and the named weights of the model it describes."""
    arch = _ARCHITECTURES[_text(config, "model_type")]
    writer = gguf.GGUFWriter(path, arch)
    _add_sizes(writer, config, arch)
    _add_rope(writer, config, arch)
    writer.add_tokenizer_model("none")
    for name, tensor in weights.items():
        writer.add_tensor(_gguf_name(name, arch), _gguf_values(name, tensor, config, arch))
    factors = _llama3_factors(config)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_sizes(writer: gguf.GGUFWriter, config: Config, arch: str) -> None:
    writer.add_block_count(_whole(config, "num_hidden_layers"))
    writer.add_context_length(_whole(config, "max_position_embeddings"))
    writer.add_embedding_length(_whole(config, "hidden_size"))
    writer.add_feed_forward_length(_whole(config, "intermediate_size"))
    writer.add_head_count(_whole(config, "num_attention_heads"))
    writer.add_head_count_kv(_whole(config, "num_key_value_heads"))
    writer.add_layer_norm_rms_eps(_number(config, "rms_norm_eps"))
    writer.add_vocab_size(_whole(config, "vocab_size"))
    if "head_dim" in config:
        writer.add_key_length(_whole(config, "head_dim"))
        writer.add_value_length(_whole(config, "head_dim"))
    if arch == "llama":
        writer.add_rope_dimension_count(_head_dim(config))
    if arch == "gemma3":
        writer.add_sliding_window(_whole(config, "sliding_window"))
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(_number(config, "final_logit_softcapping"))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _add_rope(writer: gguf.GGUFWriter, config: Config, arch: str) -> None:
    rope = _rope(config)
    writer.add_rope_freq_base(_number(rope, "rope_theta"))
    if arch == "gemma3":
        writer.add_rope_freq_base_swa(_number(config, "rope_local_base_freq"))
    if rope.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(_number(rope, "factor"))


def _rope(config: Config) -> dict[str, object]:
    """The rope settings of the full layers in one dictionary, whichever way the config has them."""
    for key in ("rope_parameters", "rope_scaling"):
        value = config.get(key)
        if isinstance(value, dict):
            return {"rope_theta": config.get("rope_theta"), **value}
    return {"rope_theta": config["rope_theta"]}


def _llama3_factors(config: Config) -> np.ndarray | None:
    """Divisors of the rotation angles, one per pair of channels, for Llama-3 rope scaling."""
    rope = _rope(config)
    if rope.get("rope_type") != "llama3":
        return None
    dim = _head_dim(config)
    original = _number(rope, "original_max_position_embeddings")
    low, high = _number(rope, "low_freq_factor"), _number(rope, "high_freq_factor")
    factor = _number(rope, "factor")
    divisors = []
    for pair in range(dim // 2):
        wavelength = 2 * math.pi * _number(rope, "rope_theta") ** (2 * pair / dim)
        # 0 where the wavelength is long (divide by the whole factor), 1 where it is short.
        share = min(1.0, max(0.0, (original / wavelength - low) / (high - low)))
        divisors.append(1.0 / ((1.0 - share) / factor + share))
    return np.array(divisors, dtype=np.float32)


def _gguf_name(name: str, arch: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _GLOBAL_NAMES:
        return f"{_GLOBAL_NAMES[stem]}.{kind}"
    _, _, index, part = stem.split(".", 3)
    names = _GEMMA_LAYER_NAMES if arch == "gemma3" else _LAYER_NAMES
    return f"blk.{index}.{names[part]}.{kind}"


def _gguf_values(name: str, tensor: torch.Tensor, config: Config, arch: str) -> np.ndarray:
    values = tensor.detach().float().numpy()
    if arch == "gemma3" and name.endswith("norm.weight"):
        return values + np.float32(1.0)
    if arch == "llama" and ".q_proj." in name:
        return _adjacent_pairs(values, _whole(config, "num_attention_heads"))
    if arch == "llama" and ".k_proj." in name:
        return _adjacent_pairs(values, _whole(config, "num_key_value_heads"))
    return values


def _adjacent_pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    """Reorder each head's rows so that channels which rotate together lie side by side."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


def _head_dim(config: Config) -> int:
    if "head_dim" in config:
        return _whole(config, "head_dim")
    return _whole(config, "hidden_size") // _whole(config, "num_attention_heads")


def _whole(config: Config, key: str) -> int:
    value = config[key]
    assert isinstance(value, int), (key, value)
    return value


def _number(config: Config, key: str) -> float:
    value = config[key]
    assert isinstance(value, int | float), (key, value)
    return float(value)


def _text(config: Config, key: str) -> str:
    value = config[key]
    assert isinstance(value, str), (key, value)
    return value
