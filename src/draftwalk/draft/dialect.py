"""How GGUF files of architecture `dflash` name things: DFlash and DFlash2 drafters.

Keys and tensors are llama.cpp's. Extension of this package: a selector whose tables are stored as
factors of the target's embedding has tensors `selector_predecessor_factor.weight` and
`selector_successor_factor.weight` [rank, width] in place of the tables; table = embedding times
factor transposed. The key `draftwalk.selector.embedding_sha256` is the fingerprint of the embedding
they were trained on.
"""

from __future__ import annotations

from collections.abc import Mapping

from draftwalk.weights.dialect import Dialect, Key
from draftwalk.weights.fields import (
    COUNT,
    COUNTS,
    FLAG,
    FLAGS,
    INDEX,
    INDEXES,
    NUMBER,
    TEXT,
    Fields,
)
from draftwalk.weights.gguf import GgufFile

FINGERPRINT_KEY = "draftwalk.selector.embedding_sha256"


def derive(file: GgufFile, config: Mapping[str, object]) -> Mapping[str, object]:
    """What the keys mean in the terms of `config.json`."""
    own = Fields(config, f"{file.name}: dflash")
    general = Fields(file.metadata, file.name)
    layers = own.need("num_hidden_layers", COUNT)
    targets = own.need("target_layers", COUNTS)  # counted from 1: 0 would tap the embedding
    head_dim = own.need("head_dim", COUNT)
    sections = own.get("rope_sections", INDEXES, None)
    if sections is not None and [*sections, 0, 0, 0][:4] != [head_dim // 2, 0, 0, 0]:
        own.fail(f"key rope.dimension_sections is {sections}, only one section is implemented")
    window = own.get("sliding_window", COUNT, None)
    pattern = own.get("sliding_pattern", FLAGS, [window is not None] * layers)
    return {
        "target_layer_ids": [layer - 1 for layer in targets],
        "mask_token_id": general.need("tokenizer.ggml.mask_token_id", INDEX),
        "layer_types": ["sliding_attention" if s else "full_attention" for s in pattern],
        # Without the key llama.cpp runs every layer two-way.
        "is_causal": own.get("is_causal", FLAG, False),
        **dict.fromkeys(("target_layers", "sliding_pattern", "rope_sections")),  # said above
    }


_LAYER = "layers.{i}"

DIALECT = Dialect(
    "dflash",
    "DFlashDraftModel",
    "qwen3",
    prefix="",
    tensors={
        "fc.weight": "fc.weight",
        "enc.output_norm.weight": "hidden_norm.weight",
        "blk.{i}.attn_conv_base": f"{_LAYER}.attention_conv.base_kernel",
        "blk.{i}.attn_conv_proj.weight": f"{_LAYER}.attention_conv.kernel_projection.weight",
        "blk.{i}.ffn_conv_base": f"{_LAYER}.mlp_conv.base_kernel",
        "blk.{i}.ffn_conv_proj.weight": f"{_LAYER}.mlp_conv.kernel_projection.weight",
        "selector_predecessor.weight": "candidate_selector.predecessor_codebook",
        "selector_successor.weight": "candidate_selector.successor_codebook",
        "selector_predecessor_factor.weight": "candidate_selector.predecessor_factor",
        "selector_successor_factor.weight": "candidate_selector.successor_factor",
        "selector_hidden.weight": "candidate_selector.hidden_projection.weight",
    },
    keys={
        "target_layers": Key(COUNTS, "target_layers", required=True),
        "block_size": Key(COUNT, "block_size"),
        "conv_kernel_size": Key(COUNT, "conv_kernel_size"),
        "conv_group_size": Key(COUNT, "conv_group_size"),
        "selector_rank": Key(COUNT, "selector_rank"),
        "selector_top_k": Key(COUNT, "selector_top_k"),
        "logit_scale": Key(NUMBER, "output_multiplier"),
        "final_logit_softcapping": Key(NUMBER, "final_logit_softcapping"),
        "embedding_scale": Key(NUMBER, "input_embedding_scale"),
        "attention.sliding_window": Key(COUNT, "sliding_window"),
        "attention.sliding_window_pattern": Key(FLAGS, "sliding_pattern"),
        "attention.causal": Key(FLAG, "is_causal"),
        "rope.dimension_sections": Key(INDEXES, "rope_sections"),
        "hidden_activation": Key(TEXT, "hidden_act"),
        "sample_from_anchor": Key(FLAG, "sample_from_anchor"),
        "has_confidence_head": Key(FLAG, "has_confidence_head"),
    },
    derive=derive,
)
