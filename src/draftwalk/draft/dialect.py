"""How GGUF files of architecture `dflash` name things: DFlash and DFlash2 drafters.

Keys and tensors are llama.cpp's, and what it demands of them is demanded here. Extensions of this
package, which other engines refuse or pass over:

* A selector whose tables are stored as factors of the target's embedding has tensors
  `selector_predecessor_factor.weight` and `selector_successor_factor.weight` [rank, width] in place
  of the tables; table = embedding times factor transposed. The key
  `draftwalk.selector.embedding_sha256` is the fingerprint of the embedding they were trained on.
* The keys `draftwalk.window.bias`, `.slope`, `.heat` and `.labels` say how the drafter's confidence
  and its acceptance belong together.
* The key `draftwalk.draft_vocabulary` lists the tokens worth drafting. It is a key and no tensor
  because llama.cpp refuses a file with a tensor that it does not know.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from draftwalk.draft.config import OWN_TABLE, VOCABULARY_KEY, WINDOW_KEY
from draftwalk.quant.integers import I64
from draftwalk.weights.dialect import Dialect, Key
from draftwalk.weights.fields import (
    COUNT,
    FLAG,
    FLAGS,
    INDEX,
    INDEXES,
    NUMBER,
    TEXT,
    Fields,
)
from draftwalk.weights.gguf import GgufFile
from draftwalk.weights.tensor import RawTensor, pack_integers

FINGERPRINT_KEY = "draftwalk.selector.embedding_sha256"
LIST_KEY = "draftwalk.draft_vocabulary"
WINDOW_PREFIX = "draftwalk.window."
MASK_KEY = "tokenizer.ggml.mask_token_id"
MAP = "d2t"
_ZERO_IS_OFF = (  # in llama.cpp
    "output_multiplier",
    "input_embedding_scale",
    "final_logit_softcapping",
    "attention_value_scale",
)


def own_fields(file: GgufFile) -> Fields:
    """The file's keys, to be asked for in full, so that messages name them in full."""
    return Fields(file.metadata, file.name)


def derive(file: GgufFile, config: Mapping[str, object]) -> Mapping[str, object]:
    """What the keys mean in the terms of `config.json`."""
    own = Fields(config, f"{file.name}: dflash")
    decoder = own.get("decoder_arch", TEXT, None)
    if decoder is not None:
        own.fail(f"key decoder_arch is {decoder[:40]!r}, a decoder that is not implemented")
    _check_selector(file, own)
    targets = own.need("target_layers", INDEXES)
    return {
        "target_layer_ids": _taps(file, targets),
        "mask_token_id": own_fields(file).need(MASK_KEY, INDEX),
        **dict.fromkeys(("target_layers", "decoder_arch")),  # said above
        **shared_terms(file, config, own),
    }


def shared_terms(file: GgufFile, config: Mapping[str, object], own: Fields) -> Mapping[str, object]:
    """What drafters of every dialect say in the same way."""
    terms: dict[str, object] = {
        "layer_types": _layer_types(own),
        # Without the key llama.cpp runs every layer two-way.
        "is_causal": own.get("is_causal", FLAG, False),
        "attention_sink_bias": "blk.0.attn_sinks.weight" in file.tensors,
        **{key: None for key in _ZERO_IS_OFF if config.get(key) == 0},
        **dict.fromkeys(("sliding_pattern", "rope_sections")),  # said above
    }
    _check_sections(own)
    _check_tokens(file, own)
    if MAP in file.tensors:
        shape = file.tensors[MAP].shape
        if len(shape) != 1:
            own.fail(f"tensor {MAP} has shape {list(shape)}, expected one row of ids")
        terms["draft_vocab_size"] = shape[0]
    listed = _listed(file, own.need("vocab_size", COUNT))
    prefix = WINDOW_PREFIX
    window = {k.removeprefix(prefix): v for k, v in file.metadata.items() if k.startswith(prefix)}
    table: dict[str, object] = {} if listed is None else {VOCABULARY_KEY: listed}
    terms[OWN_TABLE] = table | ({WINDOW_KEY: window} if window else {})
    return terms


def adapt(raw: RawTensor, config: Mapping[str, object]) -> RawTensor:
    """GGUF maps drafted rows to the target's ids, Hugging Face to their distance from the row."""
    if raw.name != MAP:
        return raw
    ids = raw.integers()
    return replace(pack_integers(MAP, ids - np.arange(len(ids)), I64()), file=None)


def _taps(file: GgufFile, targets: list[int]) -> list[int]:
    """Layers counted from 0; files count the inputs of layers, so the first layer's output is 1.

    A 0 would be the embedding, which nobody taps: such a file was written without the +1.
    """
    if 0 not in targets:
        return [layer - 1 for layer in targets]
    warnings.warn(
        f"{file.name}: target_layers has a 0, so it is read as counted from 0, without the 1 that "
        "llama.cpp adds",
        stacklevel=2,
    )
    return targets


def _layer_types(own: Fields) -> list[str]:
    """From the window and its pattern, which need each other."""
    layers = own.need("num_hidden_layers", COUNT)
    window = own.get("sliding_window", INDEX, 0)
    pattern = own.get("sliding_pattern", FLAGS, None)
    if window and pattern is None:
        own.fail(
            "key attention.sliding_window_pattern is missing, attention.sliding_window is there"
        )
    slides = pattern or [False] * layers
    if len(slides) != layers:
        own.fail(
            f"key attention.sliding_window_pattern has {len(slides)} values for {layers} layers"
        )
    if any(slides) and not window:
        own.fail("key attention.sliding_window is missing, the pattern has sliding layers")
    return ["sliding_attention" if one else "full_attention" for one in slides]


def _listed(file: GgufFile, known: int) -> list[int] | None:
    """The tokens worth drafting; how many there are is looked at before any of them."""
    fields = own_fields(file)
    found = fields.raw(LIST_KEY)
    if isinstance(found, list) and len(found) > known:
        fields.fail(f"key {LIST_KEY} names {len(found)} tokens, the drafter knows {known}")
    return fields.get(LIST_KEY, INDEXES, None)


def _check_sections(own: Fields) -> None:
    half = own.need("head_dim", COUNT) // 2
    sections = own.get("rope_sections", INDEXES, None)
    if sections is not None and (sections[:1] != [half] or any(sections[1:])):
        own.fail(
            f"key rope.dimension_sections is {sections[:4]}, only one section of {half} is "
            "implemented"
        )


def _check_tokens(file: GgufFile, own: Fields) -> None:
    """The tables have a row for every token that is listed."""
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    known = own.need("vocab_size", COUNT)
    if isinstance(tokens, list) and len(tokens) != known:
        own.fail(
            f"the tokenizer has {len(tokens)} tokens, the drafter {known}",
            "it was written with another target's tokenizer, or one that was not padded",
        )


def _check_selector(file: GgufFile, own: Fields) -> None:
    """What llama.cpp demands of DFlash2 files beyond what the drafter itself needs."""
    if "selector_hidden.weight" not in file.tensors:
        return
    own.need("block_size", COUNT)
    width, candidates = own.need("hidden_size", COUNT), own.need("selector_top_k", COUNT)
    if not lattice_fits(width, candidates):
        own.fail(
            f"key selector_top_k {candidates} is too large for a width of {width}",
            "llama.cpp packs K * (K + 1) values in a row",
        )


def lattice_fits(width: int, candidates: int) -> bool:
    """Whether llama.cpp can hand a row's candidates and scores on."""
    return candidates * (candidates + 1) <= width


_LAYER = "layers.{i}"

TENSORS: Mapping[str, str] = {
    "fc.weight": "fc.weight",
    "fc.scale": "fc.scale",
    "enc.output_norm.weight": "hidden_norm.weight",
    MAP: MAP,
    "blk.{i}.attn_sinks.weight": f"{_LAYER}.self_attn.sinks",
    "blk.{i}.attn_conv_base": f"{_LAYER}.attention_conv.base_kernel",
    "blk.{i}.attn_conv_proj.weight": f"{_LAYER}.attention_conv.kernel_projection.weight",
    "blk.{i}.ffn_conv_base": f"{_LAYER}.mlp_conv.base_kernel",
    "blk.{i}.ffn_conv_proj.weight": f"{_LAYER}.mlp_conv.kernel_projection.weight",
    "selector_predecessor.weight": "candidate_selector.predecessor_codebook",
    "selector_successor.weight": "candidate_selector.successor_codebook",
    "selector_predecessor_factor.weight": "candidate_selector.predecessor_factor",
    "selector_successor_factor.weight": "candidate_selector.successor_factor",
    "selector_hidden.weight": "candidate_selector.hidden_projection.weight",
    # Some write the tables as Hugging Face calls them; the first name of two is the one to write.
    "selector_predecessor": "candidate_selector.predecessor_codebook",
    "selector_successor": "candidate_selector.successor_codebook",
}
SHARED_KEYS: Mapping[str, Key] = {
    "attention.sliding_window": Key(INDEX, "sliding_window"),
    "attention.sliding_window_pattern": Key(FLAGS, "sliding_pattern"),
    "attention.causal": Key(FLAG, "is_causal"),
    "attention.value_scale": Key(NUMBER, "attention_value_scale"),
    "rope.dimension_sections": Key(INDEXES, "rope_sections"),
    "hidden_activation": Key(TEXT, "hidden_act"),
}

DIALECT = Dialect(
    "dflash",
    "DFlashDraftModel",
    "qwen3",
    prefix="",
    tensors=TENSORS,
    keys={
        **SHARED_KEYS,
        "target_layers": Key(INDEXES, "target_layers", required=True),
        "block_size": Key(COUNT, "block_size"),
        "conv_kernel_size": Key(COUNT, "conv_kernel_size"),
        "conv_group_size": Key(COUNT, "conv_group_size"),
        "selector_rank": Key(COUNT, "selector_rank"),
        "selector_top_k": Key(COUNT, "selector_top_k"),
        "logit_scale": Key(NUMBER, "output_multiplier"),
        "final_logit_softcapping": Key(NUMBER, "final_logit_softcapping"),
        "embedding_scale": Key(NUMBER, "input_embedding_scale"),
        "sample_from_anchor": Key(FLAG, "sample_from_anchor"),
        "has_confidence_head": Key(FLAG, "has_confidence_head"),
        "decoder_arch": Key(TEXT, "decoder_arch"),
    },
    derive=derive,
    adapt=adapt,
)
