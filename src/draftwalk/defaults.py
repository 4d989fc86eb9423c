"""Settings that were not asked for: from the checkpoint's generation config, else greedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from draftwalk.settings import Sampling
from draftwalk.weights.fields import FLAG, INDEX, NUMBER, Fields

# Hugging Face's names for what Sampling calls otherwise, or the same.
_NAMES = {
    "temperature": ("temperature", NUMBER),
    "top_k": ("top_k", INDEX),
    "top_p": ("top_p", NUMBER),
    "min_p": ("min_p", NUMBER),
    "repeat_penalty": ("repetition_penalty", NUMBER),
}


def sampling_settings(
    asked: Mapping[str, object], generation: Mapping[str, object], where: str
) -> Sampling:
    """Sampling from what was asked for, then the generation config, then greedy.

    A generation config counts only if it says `do_sample`; a request for another temperature is a
    request to sample, so the config's other settings still apply under it.

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
    banned = generation.get("suppress_tokens")
    if isinstance(banned, list):
        values["logit_bias"] = {token: float("-inf") for token in banned if token >= 0}
    known = {field.name for field in fields(Sampling)}
    assert asked.keys() <= known, "callers name fields of Sampling"
    values |= {name: value for name, value in asked.items() if value is not None}
    return Sampling(**values)  # type: ignore[arg-type]  # Sampling checks every value
