"""The configuration of a GGUF file under Hugging Face's keys, as config.json would have it."""

from __future__ import annotations

from collections.abc import Mapping

from draftwalk.weights.dialect import Config, Dialect, Key
from draftwalk.weights.fields import (
    COUNT,
    FLAG,
    LAYERS,
    POSITIVE,
    SAME_COUNT,
    TEXT,
    Fields,
    Kind,
)
from draftwalk.weights.gguf import GgufFile

# llama.cpp's value when a file has no key rope.freq_base.
_DEFAULT_ROPE_THETA = 10000.0

_NONE_OF_IT = Kind("0, the only value implemented", lambda v: 0 if v == 0 else None)
_CAUSAL = Kind("true, the only value implemented", lambda v: True if v is True else None)
_ANY: Kind[object] = Kind("anything", lambda v: v)

COMMON_KEYS: Mapping[str, Key] = {
    "block_count": Key(LAYERS, "num_hidden_layers", required=True),
    "context_length": Key(COUNT, "max_position_embeddings", required=True),
    "embedding_length": Key(COUNT, "hidden_size", required=True),
    "feed_forward_length": Key(SAME_COUNT, "intermediate_size", required=True),
    "vocab_size": Key(COUNT, "vocab_size"),
    "attention.head_count": Key(SAME_COUNT, "num_attention_heads", required=True),
    "attention.head_count_kv": Key(SAME_COUNT, "num_key_value_heads"),
    "attention.key_length": Key(COUNT, "head_dim"),
    "attention.value_length": Key(COUNT),
    "attention.layer_norm_rms_epsilon": Key(POSITIVE, "rms_norm_eps", required=True),
    "attention.causal": Key(_CAUSAL),
    "rope.dimension_count": Key(COUNT),
    "rope.freq_base": Key(POSITIVE, "rope_theta"),
    "rope.scaling.type": Key(TEXT),
    "rope.scaling.factor": Key(POSITIVE),
    "rope.scaling.original_context_length": Key(COUNT),
    "rope.scaling.yarn_beta_fast": Key(POSITIVE),
    "rope.scaling.yarn_beta_slow": Key(POSITIVE),
    "rope.scale_linear": Key(POSITIVE),  # before rope.scaling.* existed
    "expert_count": Key(_NONE_OF_IT),
    "expert_used_count": Key(_NONE_OF_IT),
    "nextn_predict_layers": Key(_NONE_OF_IT),
    # These say how the model was made; nothing is computed from them.
    "rope.scaling.finetuned": Key(FLAG),
    "tensor_data_layout": Key(_ANY),
}


def canonical_config(file: GgufFile, dialect: Dialect) -> dict[str, object]:
    """Hugging Face's configuration keys for a GGUF file.

    Raises:
        CheckpointError: a key is missing, of the wrong kind, or not known for the architecture.
    """
    settings = _settings(file, dialect)
    keys = {**COMMON_KEYS, **dialect.keys}
    config: dict[str, object] = {
        "architectures": [dialect.architecture],
        "model_type": dialect.model_type,
        **dialect.fixed,
    }
    for name, key in keys.items():
        if name not in settings.values:
            if key.required:
                settings.need(name, key.kind)
            continue
        value = settings.read(name, key.kind)
        raw = settings.values[name]
        if key.kind is SAME_COUNT and isinstance(raw, list):
            _check_length(settings, name, len(raw))
        if key.config:
            config[key.config] = value
    _complete_heads(config, settings, keys)
    config.setdefault("rope_theta", _DEFAULT_ROPE_THETA)
    config["rope_scaling"] = _rope_scaling(settings)
    config["vocab_size"] = _vocabulary(file, settings)
    config["tie_word_embeddings"] = "output.weight" not in file.tensors
    config["attention_bias"] = "blk.0.attn_q.bias" in file.tensors
    config["mlp_bias"] = "blk.0.ffn_up.bias" in file.tensors
    return {**config, **dialect.derive(file, config)}


def _check_length(settings: Fields, name: str, length: int) -> None:
    layers = settings.need("block_count", LAYERS)
    if length != layers:
        settings.fail(f"key {settings.prefix}{name} has {length} values for {layers} layers")


def _settings(file: GgufFile, dialect: Dialect) -> Fields:
    """The values under `<name>.`, with the prefix removed; unknown ones are refused."""
    prefix = f"{dialect.name}."
    values = {
        key.removeprefix(prefix): value
        for key, value in file.metadata.items()
        if key.startswith(prefix)
    }
    settings = Fields(values, file.name, prefix)
    unknown = [key for key in values if key not in COMMON_KEYS and key not in dialect.keys]
    if unknown:
        listed = ", ".join(prefix + key for key in unknown[:4])
        settings.fail(
            f"key {listed} is not implemented for this architecture",
            "the setting would change the results, so it is not ignored",
        )
    return settings


def _complete_heads(config: dict[str, object], settings: Fields, keys: Mapping[str, Key]) -> None:
    """Fill in what a file may leave out, and refuse heads of two sizes."""
    heads = settings.need("attention.head_count", SAME_COUNT)
    width = settings.need("embedding_length", COUNT)
    config.setdefault("num_key_value_heads", heads)
    if "head_dim" not in config:
        if width % heads:
            settings.fail(f"embedding_length {width} is no multiple of head_count {heads}")
        config["head_dim"] = width // heads
    for name in ("attention.value_length", "rope.dimension_count"):
        size = settings.get(name, COUNT, None)
        declared_by_architecture = keys[name] is not COMMON_KEYS[name]
        if size is not None and size != config["head_dim"] and not declared_by_architecture:
            settings.fail(
                f"key {settings.prefix}{name} is {size} but heads have {config['head_dim']} values",
                "only equal sizes are implemented for this architecture",
            )


def _rope_scaling(settings: Fields) -> Config | None:
    legacy = settings.get("rope.scale_linear", POSITIVE, 1.0)
    factor = settings.get("rope.scaling.factor", POSITIVE, legacy)
    kind = settings.get("rope.scaling.type", TEXT, "linear" if factor != 1.0 else "none")
    if kind == "none" or (kind == "linear" and factor == 1.0):
        return None
    scaling: dict[str, object] = {"rope_type": kind, "factor": factor}
    for name, key, number in (
        ("rope.scaling.original_context_length", "original_max_position_embeddings", COUNT),
        ("rope.scaling.yarn_beta_fast", "beta_fast", POSITIVE),
        ("rope.scaling.yarn_beta_slow", "beta_slow", POSITIVE),
    ):
        if name in settings.values:
            scaling[key] = settings.read(name, number)
    return scaling


def _vocabulary(file: GgufFile, settings: Fields) -> int:
    """Rows of the embedding; a drafter without one has its target's tokens."""
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    listed = len(tokens) if isinstance(tokens, list) else None
    declared = settings.get("vocab_size", COUNT, listed)
    if "token_embd.weight" not in file.tensors:
        if declared is None:
            settings.fail(
                f"key {settings.prefix}vocab_size is missing",
                "the file has no tokens to count either",
            )
        return declared
    rows = file.tensors["token_embd.weight"].shape[0]
    if declared is not None and declared > rows:
        settings.fail(f"the vocabulary has {declared} tokens but token_embd.weight {rows} rows")
    return rows
