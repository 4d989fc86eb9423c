"""A dialect and a whole small file for tests of the reader alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from draftwalk.quant import PackingFormat, formats_by_name
from draftwalk.weights import Dialect, RawTensor, Typed, pack_integers, pack_tensor, write_gguf
from draftwalk.weights.gguf_values import Value, ValueType
from draftwalk.weights.names import NameMap, common_names

TOY = Dialect("toy", "ToyForCausalLM", "toy")
METADATA: dict[str, Value | Typed] = {
    "general.architecture": "toy",
    "general.name": "Größe 1",
    "general.tags": ["a", "b"],
    "toy.block_count": 2,
    "toy.context_length": 64,
    "toy.embedding_length": 32,
    "toy.feed_forward_length": 64,
    "toy.attention.head_count": 4,
    "toy.attention.head_count_kv": 2,
    "toy.attention.layer_norm_rms_epsilon": 1e-5,
    "toy.rope.freq_base": 500000.0,
    "toy.vocab_size": 6,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["a", "b", "ab", "<s>", "</s>", "<unk>"],
    "tokenizer.ggml.scores": [0.0, -1.0, -2.0, 0.0, 0.0, 0.0],
    "tokenizer.ggml.token_type": [1, 1, 1, 3, 3, 2],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 4,
    "tokenizer.ggml.add_bos_token": True,
    "general.quantization_version": Typed(ValueType.UINT64, 2),
}


def weight(name: str, shape: tuple[int, ...], format_: str = "F32") -> RawTensor:
    """Random values that depend on the name, in any format that can be written."""
    rng = np.random.default_rng(list(name.encode()))
    packing = formats_by_name()[format_]
    assert isinstance(packing, PackingFormat)
    return pack_tensor(name, rng.standard_normal(shape).astype(np.float32), packing)


def tensors() -> list[RawTensor]:
    """GGUF names; several formats, a bias, and integers."""
    out = [
        weight("token_embd.weight", (6, 32), "Q8_0"),
        weight("output_norm.weight", (32,)),
        weight("blk.0.attn_q.weight", (32, 32), "F16"),
        weight("blk.0.attn_q.bias", (32,)),
        weight("blk.1.ffn_down.weight", (32, 64), "BF16"),
    ]
    integers = formats_by_name()["I64"]
    return [*out, pack_integers("d2t", np.arange(6, dtype=np.int64), integers)]  # type: ignore[arg-type]


def write_toy(path: Path, changes: dict[str, Value | Typed | None] | None = None) -> Path:
    """The file; a change of `None` leaves a key out."""
    merged = {**METADATA, **(changes or {})}
    write_gguf(path, {k: v for k, v in merged.items() if v is not None}, tensors())
    return path


def canonical_names() -> NameMap:
    return NameMap(common_names("model."))
