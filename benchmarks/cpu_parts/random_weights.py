"""Models of a real shape with random weights: speed does not depend on what they say.

Weights are random blocks, not packed floats: every bit pattern of the integers occurs, scales are
fp16 numbers of a size that keeps activations in range. Norms are ones, in F32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from draftwalk.prompt.byte_level import byte_alphabet
from draftwalk.quant import Format, formats_by_name
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.weights import RawTensor, pack_tensor, write_gguf
from draftwalk.weights.gguf_values import Value

# Where a format keeps its fp16 numbers, and how large each is beside the block's scale. A minimum
# is chosen so that values are centred.
_HALVES: Mapping[str, tuple[tuple[int, float], ...]] = {
    "Q4_0": ((0, 1.0),),
    "Q4_1": ((0, 1.0), (2, -7.5)),
    "Q5_0": ((0, 1.0),),
    "Q5_1": ((0, 1.0), (2, -15.5)),
    "Q8_0": ((0, 1.0),),
    "Q2_K": ((80, 1.0), (82, 1.5)),
    "Q3_K": ((108, 1.0),),
    "Q4_K": ((0, 1.0), (2, 7.5)),
    "Q5_K": ((0, 1.0), (2, 15.5)),
    "Q6_K": ((208, 1.0),),
    "IQ4_NL": ((0, 1.0),),
    "IQ4_XS": ((0, 1.0),),
}
RANDOM_FORMATS = tuple(_HALVES)
_SPREAD = 0.03  # standard deviation of weights
_SEED = 7
_FILE_TYPES = {"Q8_0": 7, "Q4_K": 15}  # llama.cpp's names for whole files; informative
_PAD, _NORMAL, _CONTROL = 5, 1, 3  # kinds of tokens


def random_matrix(
    name: str, shape: tuple[int, int], format_name: str, rng: np.random.Generator
) -> RawTensor:
    """A matrix of valid random blocks."""
    format_ = formats_by_name()[format_name]
    count = shape[0] * shape[1] // format_.BLOCK
    assert shape[1] % format_.BLOCK == 0, f"{name}: rows are not whole {format_name} blocks"
    blocks = np.frombuffer(rng.bytes(count * format_.BYTES), np.uint8).reshape(count, -1).copy()
    if format_name == "Q8_0":
        blocks[:, 2:][blocks[:, 2:] == 0x80] = 0x81  # quantisers never write -128
    size = _SPREAD / _unit(format_, format_name, blocks[:256].copy())
    scales = (size * rng.uniform(0.5, 1.5, count)).astype(np.float32)
    _set_halves(blocks, format_name, scales)
    return RawTensor(name, shape, format_, blocks.reshape(-1))


def _unit(format_: Format, format_name: str, blocks: NDArray[np.uint8]) -> float:
    """Standard deviation of values whose blocks have scale 1."""
    _set_halves(blocks, format_name, np.ones(len(blocks), np.float32))
    return float(format_.unpack(blocks).std())


def _set_halves(blocks: NDArray[np.uint8], format_name: str, scales: NDArray[np.float32]) -> None:
    for offset, factor in _HALVES[format_name]:
        halves = (scales * np.float32(factor)).astype("<f2")
        blocks[:, offset : offset + 2] = halves.view(np.uint8).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Qwen3 with a tied head."""

    layers: int
    width: int
    mlp: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int = 151936
    context: int = 4096


QWEN3_06B = Shape(layers=28, width=1024, mlp=3072, heads=16, kv_heads=8, head_dim=128)
QWEN3_17B = Shape(layers=28, width=2048, mlp=6144, heads=16, kv_heads=8, head_dim=128)


def write_qwen3(path: Path, shape: Shape, matrices: str, embedding: str, recipe: str) -> None:
    """Writes a Qwen3 as GGUF.

    Args:
        path: the file.
        shape: sizes.
        matrices: block format of all matrices but the embedding.
        embedding: that of the embedding, which is the head too.
        recipe: written into the file, so that an older one is not taken for it.
    """
    rng = np.random.default_rng(_SEED)
    s = shape
    sizes = {
        "attn_q": (s.heads * s.head_dim, s.width),
        "attn_k": (s.kv_heads * s.head_dim, s.width),
        "attn_v": (s.kv_heads * s.head_dim, s.width),
        "attn_output": (s.width, s.heads * s.head_dim),
        "ffn_gate": (s.mlp, s.width),
        "ffn_up": (s.mlp, s.width),
        "ffn_down": (s.width, s.mlp),
    }
    norms = {"attn_norm": s.width, "ffn_norm": s.width}
    norms |= {"attn_q_norm": s.head_dim, "attn_k_norm": s.head_dim}
    tensors = [
        random_matrix("token_embd.weight", (s.vocabulary, s.width), embedding, rng),
        _ones("output_norm.weight", s.width),
    ]
    for n in range(s.layers):
        tensors += [_ones(f"blk.{n}.{name}.weight", width) for name, width in norms.items()]
        tensors += [
            random_matrix(f"blk.{n}.{name}.weight", size, matrices, rng)
            for name, size in sizes.items()
        ]
    metadata: dict[str, Value] = {
        "general.architecture": "qwen3",
        "general.name": f"random weights in the shape of Qwen3, {recipe}",
        "general.file_type": _FILE_TYPES.get(matrices, 0),
        "general.quantization_version": 2,
        **_settings(shape),
        **_words(shape.vocabulary),
    }
    write_gguf(path, metadata, tensors)


def _ones(name: str, width: int) -> RawTensor:
    return pack_tensor(name, np.ones(width, np.float32), F32)


def _settings(s: Shape) -> dict[str, Value]:
    return {
        "qwen3.block_count": s.layers,
        "qwen3.context_length": s.context,
        "qwen3.embedding_length": s.width,
        "qwen3.feed_forward_length": s.mlp,
        "qwen3.attention.head_count": s.heads,
        "qwen3.attention.head_count_kv": s.kv_heads,
        "qwen3.attention.key_length": s.head_dim,
        "qwen3.attention.value_length": s.head_dim,
        "qwen3.attention.layer_norm_rms_epsilon": 1e-6,
        "qwen3.rope.freq_base": 1e6,
    }


def _words(vocabulary: int) -> dict[str, Value]:
    """Byte-level BPE of the 256 bytes, one merge and one end token; the rest is never met."""
    letters = list(byte_alphabet().values())
    space = byte_alphabet()[ord(" ")]
    tokens = [*letters, f"{space}t", "<|endoftext|>"]
    kinds = [_NORMAL] * (len(letters) + 1) + [_CONTROL]
    padding = vocabulary - len(tokens)
    assert padding >= 0, "a vocabulary has all bytes"
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": [*tokens, *(f"[PAD{n}]" for n in range(padding))],
        "tokenizer.ggml.token_type": kinds + [_PAD] * padding,
        "tokenizer.ggml.merges": [f"{space} t"],
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.ggml.padding_token_id": len(tokens) - 1,
        "tokenizer.ggml.add_bos_token": False,
    }
