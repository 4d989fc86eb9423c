"""Settings that were not asked for: from the checkpoint's generation config, else greedy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import fields

from draftwalk.settings import Sampling
from draftwalk.weights.fields import FLAG, INDEX, INDEXES, NUMBER, Fields, shown

# Hugging Face's names for what Sampling calls otherwise, or the same.
_NAMES = {
    "temperature": ("temperature", NUMBER),
    "top_k": ("top_k", INDEX),
    "top_p": ("top_p", NUMBER),
    "min_p": ("min_p", NUMBER),
    "repeat_penalty": ("repetition_penalty", NUMBER),
}

# Keys that would change the text and are not implemented, with the value that changes nothing
# (null never does). How long a text gets is for limits to say, not for a checkpoint.
_NOT_IMPLEMENTED: Mapping[str, object] = {
    "bad_words_ids": [],
    "begin_suppress_tokens": [],
    "constraints": [],
    "diversity_penalty": 0,
    "dola_layers": None,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "exponential_decay_length_penalty": None,
    "force_words_ids": [],
    "forced_bos_token_id": None,
    "forced_decoder_ids": [],
    "forced_eos_token_id": None,
    "guidance_scale": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "num_beams": 1,
    "penalty_alpha": 0,
    "sequence_bias": [],
    "stop_strings": [],
    "token_healing": False,
    "top_h": 1,
    "typical_p": 1,
    "watermarking_config": None,
}


def sampling_settings(
    asked: Mapping[str, object], generation: Mapping[str, object], where: str
) -> Sampling:
    """Sampling from what was asked for, then the generation config, then greedy.

    A generation config counts only if it says `do_sample`; a request for another temperature is a
    request to sample, so the config's other settings still apply under it. Tokens that the config
    suppresses stay banned beside a `logit_bias` that does not speak of them.

    Args:
        asked: fields of `Sampling` by name; `None` counts as not asked for.
        generation: keys of `generation_config.json`.
        where: the checkpoint, for messages.
    """
    config = Fields(generation, where)
    values: dict[str, object] = {}
    if config.get("do_sample", FLAG, False):
        for name, (key, kind) in _NAMES.items():
            if (value := config.get(key, kind, None)) is not None:
                values[name] = value
        values.setdefault("temperature", 1.0)
    known = {field.name for field in fields(Sampling)}
    assert asked.keys() <= known, "callers name fields of Sampling"
    values |= {name: value for name, value in asked.items() if value is not None}
    bias = values.get("logit_bias", {})
    assert isinstance(bias, Mapping), "callers give a bias by token"
    values["logit_bias"] = {
        **dict.fromkeys(config.get("suppress_tokens", INDEXES, []), -math.inf),
        **bias,
    }
    return Sampling(**values)  # type: ignore[arg-type]  # Sampling checks every value


def warn_of_others(generation: Mapping[str, object], where: str) -> None:
    """Warns of settings of a generation config that are not followed, by name."""
    found = [
        f"{key} = {shown(generation[key])}"
        for key, neutral in _NOT_IMPLEMENTED.items()
        if generation.get(key) is not None and generation[key] != neutral
    ]
    if found:
        warnings.warn(
            f"{where}: the generation config asks for {', '.join(found)}, which is not "
            "implemented; texts may differ from those of engines that do it",
            stacklevel=5,
        )
