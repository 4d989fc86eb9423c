"""What a GGUF file says about generating text, under the keys of generation_config.json."""

from __future__ import annotations

from collections.abc import Mapping

from draftwalk.weights.fields import INDEX, INDEXES, NUMBER, Fields, Kind
from draftwalk.weights.gguf import GgufFile

_STOPS = ("eos_token_id", "eot_token_id", "eom_token_id")
_SAMPLING: Mapping[str, tuple[str, Kind[object]]] = {
    "temp": ("temperature", NUMBER),
    "top_k": ("top_k", INDEX),
    "top_p": ("top_p", NUMBER),
    "min_p": ("min_p", NUMBER),
    "penalty_repeat": ("repetition_penalty", NUMBER),
}


def generation_config(file: GgufFile) -> dict[str, object]:
    """Start, stop and padding ids, suppressed tokens, and recommended sampling if there is any."""
    fields = Fields(file.metadata, file.name)
    config: dict[str, object] = {}
    ids = (fields.get(f"tokenizer.ggml.{name}", INDEX, None) for name in _STOPS)
    config["eos_token_id"] = list(dict.fromkeys(i for i in ids if i is not None))
    for name, key, kind in (
        ("bos_token_id", "tokenizer.ggml.bos_token_id", INDEX),
        ("pad_token_id", "tokenizer.ggml.padding_token_id", INDEX),
        ("suppress_tokens", "tokenizer.ggml.suppress_tokens", INDEXES),
    ):
        value = fields.get(key, kind, None)
        if value is not None:
            config[name] = value
    for name, (key, number) in _SAMPLING.items():
        setting = fields.get(f"general.sampling.{name}", number, None)
        if setting is not None:
            config[key] = setting
    if "temperature" in config:
        config["do_sample"] = fields.need("general.sampling.temp", NUMBER) > 0
    return config
