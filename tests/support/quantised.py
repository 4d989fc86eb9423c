"""Targets with weights of any layout, small enough to run by the thousand."""

from __future__ import annotations

from draftwalk.ops import Operations
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.target.decoder import Decoder
from draftwalk.target.load import build_target
from draftwalk.weights import RawTensor, pack_tensor
from support.kernels import uniform
from support.matrices import random_matrix
from support.models import MadeCheckpoint

WIDTH, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCABULARY, DEPTH = 256, 6, 2, 32, 512, 72, 2
ARCHITECTURES = ("llama", "qwen3", "gemma3_text")


def quantised_target(layout: str, architecture: str, ops: Operations) -> Decoder:
    """A random target whose matrices are all of one layout; Gemma 3 has sliding layers."""
    gemma, qwen = architecture == "gemma3_text", architecture == "qwen3"
    config: dict[str, object] = {
        "model_type": architecture,
        "hidden_size": WIDTH,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "intermediate_size": INNER,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "attention_bias": False,
    }
    if gemma:
        config |= {
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 40,
            "query_pre_attn_scalar": HEAD_DIM,
            "rope_local_base_freq": 10000.0,
        }
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    matrices = {
        "self_attn.q_proj": (q, WIDTH),
        "self_attn.k_proj": (kv, WIDTH),
        "self_attn.v_proj": (kv, WIDTH),
        "self_attn.o_proj": (WIDTH, q),
        "mlp.gate_proj": (INNER, WIDTH),
        "mlp.up_proj": (INNER, WIDTH),
        "mlp.down_proj": (WIDTH, INNER),
    }
    norms = {"input_layernorm": WIDTH, "post_attention_layernorm": WIDTH}
    if gemma:
        norms |= {"pre_feedforward_layernorm": WIDTH, "post_feedforward_layernorm": WIDTH}
    if gemma or qwen:
        norms |= {"self_attn.q_norm": HEAD_DIM, "self_attn.k_norm": HEAD_DIM}
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCABULARY, WIDTH),
        "model.norm.weight": (WIDTH,),
    }
    for n in range(DEPTH):
        shapes |= {f"model.layers.{n}.{name}.weight": size for name, size in matrices.items()}
        shapes |= {f"model.layers.{n}.{name}.weight": (size,) for name, size in norms.items()}
    tensors = {
        name: _tensor(name, shape, layout, seed)
        for seed, (name, shape) in enumerate(sorted(shapes.items()))
    }
    return build_target(MadeCheckpoint(config, tensors), ops)


def _tensor(name: str, shape: tuple[int, ...], layout: str, seed: int) -> RawTensor:
    if len(shape) == 1:
        return pack_tensor(name, 1 + uniform(seed, *shape, size=0.5), F32)
    # 192 inputs of the output projection are no whole block of 256.
    usable = layout if shape[1] % 256 == 0 else "Q4_0"
    raw = random_matrix(usable, *shape, seed)
    return RawTensor(name, shape, raw.format, raw.data)
