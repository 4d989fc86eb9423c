"""GGUF drafters of architecture `dflash-draft`, as forks of llama.cpp wrote DFlash before it did.

Keys are `dflash-draft.dflash.block_size`, `.mask_token_id`, `.target_layer_ids`,
`.n_target_features` and `.n_target_layers`; the fusion's tensors are `dflash_fc` and
`dflash_hidden_norm`. The forks' converters copy `target_layer_ids` from the Hugging Face
configuration without the 1 that llama.cpp adds, and so they are read, with a warning. A list that
is the usual spread over a target only if that 1 is in it contradicts this and is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from draftwalk.draft.config import even_spread
from draftwalk.draft.dialect import MASK_KEY, SHARED_KEYS, TENSORS, adapt, own_fields, shared_terms
from draftwalk.weights.dialect import Dialect, Key
from draftwalk.weights.fields import COUNT, INDEX, INDEXES, Fields
from draftwalk.weights.gguf import GgufFile

_NAME = "dflash-draft"


def derive(file: GgufFile, config: Mapping[str, object]) -> Mapping[str, object]:
    """What the keys mean in the terms of `config.json`."""
    own = Fields(config, f"{file.name}: {_NAME}")
    taps = own.need("target_layer_ids", INDEXES)
    _check_base(file, own, taps)
    _check_sizes(file, own, taps)
    mask = own.get("mask_token_id", INDEX, None)
    return {
        "mask_token_id": own_fields(file).need(MASK_KEY, INDEX) if mask is None else mask,
        **dict.fromkeys(("n_target_features", "n_target_layers")),  # said above
        **shared_terms(file, config, own),
    }


def _check_base(file: GgufFile, own: Fields, taps: list[int]) -> None:
    """Whether layers are counted from 0."""
    if len(taps) > 1 and not _usual(taps) and _usual([tap - 1 for tap in taps]):
        own.fail(
            f"key dflash.target_layer_ids is {taps[:8]}, counted from 0 or from 1 by who wrote it",
            "convert the drafter from its Hugging Face folder",
        )
    warnings.warn(
        f"{file.name}: target_layer_ids is read as counted from 0, as converters to {_NAME} wrote "
        "it; if hardly a draft is accepted, convert the drafter from its Hugging Face folder",
        stacklevel=2,
    )


def _usual(taps: list[int]) -> bool:
    """Whether they are the even spread over some target."""
    layers = taps[-1] + 3
    return layers >= 4 and even_spread(layers, len(taps)) == tuple(taps)


def _check_sizes(file: GgufFile, own: Fields, taps: list[int]) -> None:
    """What is said twice must be the same."""
    layers = own.get("n_target_layers", COUNT, len(taps))
    if layers != len(taps):
        own.fail(
            f"key dflash.n_target_layers is {layers}, dflash.target_layer_ids names {len(taps)}"
        )
    fusion = file.tensors.get("dflash_fc.weight")
    if fusion is not None:
        features = own.get("n_target_features", COUNT, fusion.shape[-1])
        if features != fusion.shape[-1]:
            own.fail(
                f"key dflash.n_target_features is {features}, dflash_fc.weight takes "
                f"{fusion.shape[-1]}"
            )


DIALECT = Dialect(
    _NAME,
    "DFlashDraftModel",
    "qwen3",
    prefix="",
    tensors={
        "dflash_fc.weight": "fc.weight",
        "dflash_hidden_norm.weight": "hidden_norm.weight",
        **TENSORS,
    },
    keys={
        **SHARED_KEYS,
        "dflash.block_size": Key(COUNT, "block_size", required=True),
        "dflash.mask_token_id": Key(INDEX, "mask_token_id"),
        "dflash.target_layer_ids": Key(INDEXES, "target_layer_ids", required=True),
        "dflash.n_target_features": Key(COUNT, "n_target_features"),
        "dflash.n_target_layers": Key(COUNT, "n_target_layers"),
    },
    derive=derive,
    adapt=adapt,
)
