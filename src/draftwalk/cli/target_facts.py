"""What is understood of a target."""

from __future__ import annotations

from collections import Counter

from draftwalk.cli.facts import Fact, Facts, stored
from draftwalk.cli.sizing import Sizing, state_bytes
from draftwalk.draft.none import EmptyDrafter
from draftwalk.engine import Engine, Placement
from draftwalk.errors import UserError
from draftwalk.target.blueprint import Blueprint
from draftwalk.target.decoder import Decoder
from draftwalk.target.load import build_target
from draftwalk.weights import GgufCheckpoint, SafetensorsFolder

_ROPE_KEYS = {
    "rope_theta": "base",
    "rope_local_base_freq": "base of windows",
    "rope_scaling": "scaling",
    "rope_parameters": "parameters",
}


def target_facts(checkpoint: GgufCheckpoint | SafetensorsFolder, placement: Placement) -> Facts:
    """Builds the target without memory and tells about it.

    Raises:
        UserError: it cannot be used.
    """
    ops = Sizing(placement)
    decoder = build_target(checkpoint, ops, placement.context)
    plan, sizes = decoder.blueprint, decoder.sizes
    return {
        "file": str(checkpoint.path),
        "role": "target",
        "container": checkpoint.container,
        "architecture": checkpoint.architecture,
        "layers": sizes.depth,
        "attention": windows(plan),
        "width": sizes.width,
        "heads": sizes.heads,
        "kv_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "mlp_width": sizes.mlp_width,
        "activation": plan.activation,
        "head_is_embedding": plan.tied,
        "rope": _rope(checkpoint),
        "vocabulary": sizes.vocabulary,
        **_words(checkpoint, decoder, placement),
        "context": sizes.context,
        "stored": stored(checkpoint.tensors.values()),
        "memory": memory(checkpoint, ops, decoder, placement),
    }


def windows(plan: Blueprint) -> Facts:
    """How many layers see how far."""
    count = Counter(layer.window for layer in plan.layers)
    return {
        "full" if window is None else f"window {window}": f"in {layers} layers"
        for window, layers in count.items()
    }


def memory(
    checkpoint: GgufCheckpoint | SafetensorsFolder,
    ops: Sizing,
    decoder: Decoder,
    placement: Placement,
) -> Facts:
    """What it takes as loaded."""
    values = sum(raw.size for raw in checkpoint.tensors.values())
    return {
        "dtype": str(placement.dtype).removeprefix("torch."),
        "weights_bytes": ops.weights,
        "bytes_per_weight": round(ops.weights / values, 4),
        "tokens": decoder.context,
        "kv_bytes": state_bytes(decoder.new_state(), decoder.context),
    }


def _rope(checkpoint: GgufCheckpoint | SafetensorsFolder) -> Fact:
    config = checkpoint.config
    said = {name: str(config[key]) for key, name in _ROPE_KEYS.items() if config.get(key)}
    if "rope_freqs.weight" in checkpoint.tensors:
        said["scaling"] = "one divisor per frequency"
    return said or None


def _words(
    checkpoint: GgufCheckpoint | SafetensorsFolder, decoder: Decoder, placement: Placement
) -> Facts:
    """Tokenizer, template and stop tokens; a file without them is still a target."""
    engine = Engine(checkpoint, decoder, EmptyDrafter(), placement)
    try:
        tokenizer = engine.tokenizer
    except UserError as error:
        return {"tokenizer": f"none that can be used: {error}"}
    stops = {
        str(token): tokenizer.decode_one(token) if token < tokenizer.vocabulary_size else "unnamed"
        for token in sorted(tokenizer.stop_ids)
    }
    return {
        "tokenizer_tokens": tokenizer.vocabulary_size,
        "chat_template": engine.template is not None,
        "stop_ids": stops,
    }
