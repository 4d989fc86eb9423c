"""Tiny models with words, as files: what the command line and the engine are tried on.

The vocabulary is the printable ASCII characters, one token each, so that every text can be read and
counted. Weights are random.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from draftwalk.prompt.byte_level import byte_alphabet
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.weights import pack_tensor, write_gguf
from support.models import MadeCheckpoint, drafter_checkpoint

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<mask>")
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
VOCABULARY = len(CHARACTERS) + len(SPECIAL)
END = len(CHARACTERS) + 1  # <|im_end|>
WIDTH, DEPTH, HEADS, KV_HEADS, HEAD_DIM, MLP = 48, 3, 4, 2, 12, 64
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def ids_of(text: str) -> list[int]:
    """Token ids of a text without special tokens."""
    return [CHARACTERS.index(letter) for letter in text]


def write_target(
    path: Path,
    template: str | None = TEMPLATE,
    context: int = 512,
    seed: int = 5,
    width: int = WIDTH,
    head_dim: int = HEAD_DIM,
    stops_for: str = "",
    thought: float = 1.0,
) -> Path:
    """A llama in F32 as a GGUF file; where it would say `stops_for`, a letter, it mostly stops.

    `thought` scales its layers: without any, a token depends on the one before it alone, and greedy
    texts soon go round in circles.
    """
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCABULARY, width),
        "output.weight": (VOCABULARY, width),
        "output_norm.weight": (width,),
    }
    for n in range(DEPTH):
        shapes |= {
            f"blk.{n}.attn_norm.weight": (width,),
            f"blk.{n}.attn_q.weight": (HEADS * head_dim, width),
            f"blk.{n}.attn_k.weight": (KV_HEADS * head_dim, width),
            f"blk.{n}.attn_v.weight": (KV_HEADS * head_dim, width),
            f"blk.{n}.attn_output.weight": (width, HEADS * head_dim),
            f"blk.{n}.ffn_norm.weight": (width,),
            f"blk.{n}.ffn_gate.weight": (MLP, width),
            f"blk.{n}.ffn_up.weight": (MLP, width),
            f"blk.{n}.ffn_down.weight": (width, MLP),
        }
    tensors = []
    for name, shape in shapes.items():
        scale = 0.2 if len(shape) == 1 else 2.0 / np.sqrt(shape[-1])
        values = rng.standard_normal(shape) * scale + (len(shape) == 1)
        if name.startswith("blk.") and len(shape) == 2:
            values *= thought
        if name == "output.weight":
            values[END - 1 :] = 0.0  # never better than the best of 96: texts end at limits
            for token in ids_of(stops_for):
                values[END] = 1.05 * values[token]
        tensors.append(pack_tensor(name, values.astype(np.float32), F32))
    write_gguf(path, {**_settings(context, width, head_dim), **_words(template)}, tensors)
    return path


def write_drafter(
    folder: Path,
    selector: bool = True,
    vocabulary: int = VOCABULARY,
    width: int = WIDTH,
    taps: Sequence[int] = (0, 2),
) -> Path:
    """A random drafter in the Hugging Face layout."""
    return write_checkpoint(folder, drafter_checkpoint(vocabulary, width, taps, selector))


def write_checkpoint(folder: Path, made: MadeCheckpoint) -> Path:
    """A drafter in the Hugging Face layout."""
    folder.mkdir()
    config = {**made.config, "architectures": [made.architecture]}
    (folder / "config.json").write_text(json.dumps(config))
    values = {name: raw.unpack() for name, raw in made.tensors.items()}
    save_file(values, folder / "model.safetensors")
    return folder


def _settings(context: int, width: int, head_dim: int) -> dict[str, str | int | float]:
    return {
        "general.architecture": "llama",
        "llama.block_count": DEPTH,
        "llama.context_length": context,
        "llama.embedding_length": width,
        "llama.feed_forward_length": MLP,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.key_length": head_dim,
        "llama.attention.value_length": head_dim,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": head_dim,
        "llama.rope.freq_base": 10000.0,
        "llama.vocab_size": VOCABULARY,
    }


def _words(template: str | None) -> dict[str, str | int | bool | list[str] | list[int]]:
    letters = byte_alphabet()
    words: dict[str, str | int | bool | list[str] | list[int]] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*(letters[ord(c)] for c in CHARACTERS), *SPECIAL],
        "tokenizer.ggml.token_type": [1] * len(CHARACTERS) + [3] * len(SPECIAL),
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": END,
        "tokenizer.ggml.add_bos_token": False,
    }
    if template is not None:
        words["tokenizer.chat_template"] = template
    return words
