"""The layout of the `speculators` library, in the terms of a Hugging Face drafter.

`dflash` and `dflash2` keep the drafter's own settings at the top level and its decoder's in
`transformer_layer_config`, where values that are Qwen3's defaults may be left out. Target layers
are counted from 1. Tensors have Hugging Face's names; embedding and head are among them, and a head
of fewer tokens than the target's comes with `d2t`, each row's distance to its token.
"""

from __future__ import annotations

from collections.abc import Mapping

from draftwalk.draft.names import FEATURES, usual_name, usual_names
from draftwalk.weights import SafetensorsFolder
from draftwalk.weights.config_keys import HARMLESS
from draftwalk.weights.fields import BLOCK, COUNT, FLAG, INDEX, INDEXES, MAPPING, TEXT, Fields

KIND_KEY = "speculators_model_type"
_DECODER_KEY = "transformer_layer_config"
_TAPS_KEY = "aux_hidden_state_layer_ids"
_TWO_WAY_KEY = "sliding_window_non_causal"
_ARCHITECTURES = {"dflash": "DFlashDraftModel", "dflash2": "DFlash2DraftModel"}
# What the library takes for a key that is not there.
_SELECTOR = {
    "conv_kernel_size": 2,
    "conv_group_size": 16,
    "selector_rank": 256,
    "selector_top_k": 16,
}
_BLOCK, _DRAFT_VOCABULARY = 8, 32000
_QWEN3: Mapping[str, object] = {
    "attention_bias": False,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "rms_norm_eps": 1e-6,
    "vocab_size": 151936,
}
# How the drafter was made and which target it was made for: nothing is computed from it.
_ABOUT = {"speculators_config", "speculators_version"}


def drafter_folder(folder: SafetensorsFolder) -> SafetensorsFolder:
    """A folder in the terms of a Hugging Face drafter, whichever layout a drafter in it has.

    Raises:
        CheckpointError: a layout, or something in it, that is not implemented.
    """
    where = folder.path.name
    config = folder.config
    if KIND_KEY in config:
        config = usual_config(config, where)
    elif FEATURES not in {usual_name(name) for name in folder.tensors}:
        return folder
    return folder.translated(config, usual_names(folder.tensors, where))


def usual_config(config: Mapping[str, object], where: str) -> dict[str, object]:
    """A speculators configuration as `config.json` of a Hugging Face drafter would have it.

    Raises:
        CheckpointError: something is missing, of the wrong kind or not implemented.
    """
    fields = Fields(config, where)
    kind = fields.need(KIND_KEY, TEXT)
    if kind not in _ARCHITECTURES:
        fields.fail(
            f"key {KIND_KEY} {kind[:40]!r} is not implemented",
            f"implemented: {', '.join(_ARCHITECTURES)}",
        )
    decoder = _decoder(fields)
    own: dict[str, object] = {
        "block_size": fields.get("block_size", BLOCK, _BLOCK),
        "mask_token_id": fields.need("mask_token_id", INDEX),
        "target_layer_ids": _taps(fields),
    }
    if kind == "dflash2":
        own |= {key: fields.get(key, COUNT, usual) for key, usual in _SELECTOR.items()}
    two_way = fields.get(_TWO_WAY_KEY, FLAG, kind == "dflash2")
    stated = decoder.get("is_causal", FLAG, None)  # no key of the layout, but vLLM looks for it
    if stated is None and two_way:
        stated = False
    said: dict[str, object] = {
        "architectures": [_ARCHITECTURES[kind]],
        "model_type": "qwen3",
        "draft_vocab_size": _draft_vocabulary(fields, decoder, kind),
        "is_causal": stated,  # null: sliding layers are, full ones are not
        "target_hidden_size": fields.get("target_hidden_size", COUNT, None),
        "tie_word_embeddings": fields.get("tie_word_embeddings", FLAG, False),
        "dflash_config": own,
    }
    own_keys = {KIND_KEY, _DECODER_KEY, _TAPS_KEY, _TWO_WAY_KEY, *_ABOUT, *own}
    own_keys.add("aux_hidden_state_layer_ids")
    rest = {key: value for key, value in config.items() if key not in own_keys | said.keys()}
    there = {key: value for key, value in rest.items() if value is not None}
    _check_said_once(fields, decoder.values, {**there, **said})
    if config.get("dflash_config") is not None:
        fields.fail("key dflash_config is of another layout than key speculators_model_type")
    return {**rest, **decoder.values, **said}


def _decoder(fields: Fields) -> Fields:
    """The decoder's settings with Qwen3's defaults."""
    given = fields.need(_DECODER_KEY, MAPPING)
    decoder = Fields({**_QWEN3, **given}, fields.where, f"{_DECODER_KEY}.")
    decoder.refuse_unless("model_type", "qwen3")
    return decoder


def _taps(fields: Fields) -> list[int]:
    """Layers counted from 0; the layout counts what layers are given, the embedding being 0."""
    ids = fields.need(_TAPS_KEY, INDEXES)
    if 0 in ids:
        fields.fail(f"key {_TAPS_KEY} names 0, the embedding, which cannot be tapped")
    return [number - 1 for number in ids]


def _draft_vocabulary(fields: Fields, decoder: Fields, kind: str) -> int:
    whole = decoder.need("vocab_size", COUNT)
    rows = fields.get("draft_vocab_size", COUNT, whole if kind == "dflash2" else _DRAFT_VOCABULARY)
    if kind == "dflash2" and rows != whole:
        fields.fail(f"key draft_vocab_size is {rows}, but dflash2 drafters have all {whole} tokens")
    return rows


def _check_said_once(
    fields: Fields, decoder: Mapping[str, object], top: Mapping[str, object]
) -> None:
    """A key of the decoder may stand at the top as well, if it says the same there."""
    for key in decoder.keys() & top.keys() - HARMLESS - {"tie_word_embeddings"}:
        same = type(decoder[key]) is type(top[key]) and decoder[key] == top[key]
        if decoder[key] is not None and not same:
            fields.fail(f"key {_DECODER_KEY}.{key[:40]} says something else than key {key[:40]}")
