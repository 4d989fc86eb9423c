"""A drafter's config.json in a Hugging Face folder, as vLLM and SGLang expect it.

A drafter that once was in such a folder gets its own configuration back, word for word. Any other
gets one that leaves nothing to defaults that engines disagree on: `is_causal` is said wherever it
can be, and what belongs to the drafter is nested in `dflash_config`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from draftwalk.convert.drafter import Drafter
from draftwalk.convert.folder_tensors import source_of
from draftwalk.convert.provenance import Provenance
from draftwalk.convert.same import differences
from draftwalk.draft.config import OWN_TABLE, VOCABULARY_KEY, WINDOW_KEY, DrafterConfig
from draftwalk.draft.export import calibrated, calibration_table
from draftwalk.errors import CheckpointError
from draftwalk.target.rope import DEFAULT_THETA, rope_fields
from draftwalk.weights import Fields
from draftwalk.weights.fields import COUNT, POSITIVE

DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_DTYPE_KEYS = ("dtype", "torch_dtype")


def config_text(config: Mapping[str, object]) -> str:
    """As people's configurations look."""
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def hf_config_text(drafter: Drafter, most: str, outtype: str | None) -> str:
    """config.json: the one the drafter came with, or a new one.

    Args:
        drafter: what it is about.
        most: format of most tensors.
        outtype: format that was asked for, if there was one.

    Raises:
        CheckpointError: the source's configuration is not the file's, or the target is needed.
    """
    source = source_of(drafter, "hf")
    if source is None:
        return config_text(hf_config(drafter, most))
    told = DrafterConfig.read(source.config, f"{drafter.where}: the configuration of its source")
    return source_text(source, told, drafter, outtype)


def source_text(
    source: Provenance, told: DrafterConfig, drafter: Drafter, outtype: str | None
) -> str:
    """The configuration of a source, word for word where nothing was asked for or learned since.

    Args:
        source: whose it is.
        told: what it means.
        drafter: what is written.
        outtype: format that was asked for, if there was one.

    Raises:
        CheckpointError: it is not the file's.
    """
    check_same(told, drafter)
    config = source.config
    if differences(told, drafter.config):  # it was calibrated since
        config = calibrated(config, drafter.config.calibration)
    if outtype is not None:
        config = {**config, **{key: DTYPES[outtype] for key in _DTYPE_KEYS if key in config}}
    return source.text if config is source.config else config_text(config)


def check_same(told: DrafterConfig, drafter: Drafter) -> None:
    """Refuses a configuration that says something else than the drafter's file."""
    differing = [one for one in differences(told, drafter.config) if one != "calibration"]
    if differing:
        raise CheckpointError(
            f"{drafter.where}: the configuration of its source says otherwise than the file: "
            + ", ".join(differing),
            "the file was changed since; convert the source again",
        )


def hf_config(drafter: Drafter, most: str) -> dict[str, object]:
    """A new configuration.

    Raises:
        CheckpointError: the target's depth is needed.
    """
    config, sizes = drafter.config, drafter.config.sizes
    top: dict[str, object] = {
        "architectures": ["DFlashDraftModel" if config.selector is None else "DFlash2DraftModel"],
        **backbone_keys(drafter),
    }
    if config.head_rows != sizes.vocabulary:
        top["draft_vocab_size"] = config.head_rows
    if config.target_width != sizes.width:
        top["target_hidden_size"] = config.target_width
    own: dict[str, object] = {
        "block_size": config.block,
        "mask_token_id": config.mask,
        "target_layer_ids": list(config.taps),
        **selector_keys(config),
        **scale_keys(config),
    }
    return {
        **top,
        "num_target_layers": target_depth(drafter),
        "block_size": config.block,
        "torch_dtype": DTYPES[most],
        "dflash_config": own,
        **own_table(config, {}),
    }


def backbone_keys(drafter: Drafter) -> dict[str, object]:
    """What any Qwen3 model says, and how its layers see each other."""
    config, sizes = drafter.config, drafter.config.sizes
    rope = rope_fields(Fields(drafter.settings, drafter.where))
    scaling = {key: value for key, value in rope.values.items() if key != "rope_theta"}
    plain = scaling.get("rope_type", scaling.get("type", "default")) == "default"
    windows = {window for window in config.windows if window is not None}
    tied = drafter.settings.get("tie_word_embeddings") is True
    keys: dict[str, object] = {
        "model_type": "qwen3",
        "hidden_size": sizes.width,
        "intermediate_size": sizes.mlp_width,
        "num_hidden_layers": sizes.depth,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "vocab_size": sizes.vocabulary,
        "hidden_act": "silu",
        "rms_norm_eps": sizes.norm_eps,
        "max_position_embeddings": sizes.context,
        "rope_theta": rope.get("rope_theta", POSITIVE, DEFAULT_THETA),
        "rope_scaling": None if plain else scaling,
        "attention_bias": config.bias,
        "attention_dropout": 0.0,
        "layer_types": [
            "full_attention" if window is None else "sliding_attention" for window in config.windows
        ],
        "use_sliding_window": bool(windows),
        "sliding_window": max(windows, default=None),
        "tie_word_embeddings": tied if drafter.target is None else drafter.target.tied,
    }
    if config.sinks:
        keys["attention_sink_bias"] = True
    if len(set(config.causal)) == 1:  # else it is what layer_types says by itself
        keys["is_causal"] = config.causal[0]
    return keys


def selector_keys(config: DrafterConfig) -> dict[str, object]:
    """What only DFlash2 has."""
    if config.selector is None:
        return {}
    return {
        "conv_kernel_size": config.selector.taps,
        "conv_group_size": config.selector.group,
        "selector_rank": config.selector.rank,
        "selector_top_k": config.selector.candidates,
    }


def scale_keys(config: DrafterConfig) -> dict[str, object]:
    """Factors and caps, where there are any."""
    keys: dict[str, object] = {}
    if config.embedding_scale != 1.0:
        keys["input_embedding_scale"] = config.embedding_scale
    if config.multiplier != 1.0:
        keys["output_multiplier"] = config.multiplier
    if config.softcap is not None:
        keys["final_logit_softcapping"] = config.softcap
    return keys


def own_table(config: DrafterConfig, more: Mapping[str, object]) -> dict[str, object]:
    """This package's own table, if it says anything."""
    table: dict[str, object] = {**more}
    if config.listed is not None:
        table[VOCABULARY_KEY] = list(config.listed)
    if config.calibration is not None:
        table[WINDOW_KEY] = calibration_table(config.calibration)
    return {OWN_TABLE: table} if table else {}


def target_depth(drafter: Drafter) -> int:
    """Layers of the target, which a drafter's tensors do not tell."""
    if drafter.target is not None:
        return drafter.target.depth
    configs = [drafter.settings, {} if drafter.source is None else drafter.source.config]
    for config in configs:
        told = Fields(config, drafter.where).get("num_target_layers", COUNT, None)
        if told is not None:
            return told
    raise CheckpointError(
        f"{drafter.where} does not say how many layers its target has",
        "give the target: --target FILE",
    )
