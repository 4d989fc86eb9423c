"""A drafter as metadata of a GGUF file of architecture `dflash`: every key llama.cpp reads."""

from __future__ import annotations

from collections.abc import Mapping

from draftwalk.convert.drafter import Drafter
from draftwalk.convert.metadata import Metadata, size_keys
from draftwalk.convert.types import Mix
from draftwalk.draft.dialect import DIALECT, FINGERPRINT_KEY, LIST_KEY, WINDOW_PREFIX
from draftwalk.errors import CheckpointError
from draftwalk.target.rope import DEFAULT_THETA, rope_fields
from draftwalk.weights import Fields, GgufCheckpoint, Typed
from draftwalk.weights.fields import POSITIVE, TEXT
from draftwalk.weights.gguf_values import Value, ValueType

# Keys of a source file that say how it was stored, or are said anew.
_OWN_GENERAL = {"architecture", "type", "file_type", "quantization_version", "alignment"}
_QUANTIZATION_VERSION = 2


def gguf_metadata(drafter: Drafter, mix: Mix | None, tokenizer: Metadata) -> Metadata:
    """All keys of the file.

    Args:
        drafter: what is written.
        mix: the file's type, if it is one of them.
        tokenizer: the target's keys; none makes a file without a tokenizer.

    Raises:
        CheckpointError: the drafter is something a GGUF file cannot say.
    """
    config = drafter.config
    general = _general(drafter)
    if mix is not None:
        general["general.file_type"] = mix.number
        if mix.quantised:
            general["general.quantization_version"] = _QUANTIZATION_VERSION
    if not tokenizer:
        tokenizer = {"tokenizer.ggml.model": "none"}
    else:
        _check_tokens(tokenizer, config.sizes.vocabulary, drafter.where)
    own = {**_sizes(drafter), **_rope(drafter), **_windows(drafter), **_drafting(drafter)}
    return {
        "general.architecture": DIALECT.name,
        "general.type": "model",
        **general,
        **{f"{DIALECT.name}.{key}": value for key, value in own.items()},
        **tokenizer,
        "tokenizer.ggml.mask_token_id": config.mask,
        **_extensions(drafter),
    }


def _extensions(drafter: Drafter) -> Metadata:
    """Keys of this package, which other engines pass over."""
    keys: Metadata = {}
    if drafter.fingerprint is not None:
        keys[FINGERPRINT_KEY] = drafter.fingerprint
    if drafter.config.listed is not None:
        keys[LIST_KEY] = Typed(ValueType.INT32, list(drafter.config.listed))
    known = drafter.config.calibration
    if known is not None:
        keys |= {
            f"{WINDOW_PREFIX}bias": Typed(ValueType.FLOAT32, list(known.bias)),
            f"{WINDOW_PREFIX}slope": Typed(ValueType.FLOAT32, list(known.slope)),
            f"{WINDOW_PREFIX}heat": Typed(ValueType.FLOAT32, known.heat),
            f"{WINDOW_PREFIX}labels": Typed(ValueType.INT64, known.labels),
        }
    if drafter.source is not None:
        keys |= drafter.source.keys()
    return keys


def _general(drafter: Drafter) -> Metadata:
    """What a source file says of itself in text; of a folder, its name."""
    source = drafter.checkpoint
    if not isinstance(source, GgufCheckpoint):
        return {"general.name": source.path.resolve().name or "drafter"}
    kept: Metadata = {}
    for key, value in source.metadata.items():
        if key.startswith("general.") and key.removeprefix("general.") not in _OWN_GENERAL:
            texts = value if isinstance(value, list) else [value]
            if texts and all(isinstance(text, str) for text in texts):
                kept[key] = value
    return kept


def _check_tokens(tokenizer: Mapping[str, Value | Typed], vocabulary: int, where: str) -> None:
    tokens = tokenizer.get("tokenizer.ggml.tokens")
    values = tokens.value if isinstance(tokens, Typed) else tokens
    count = len(values) if isinstance(values, list) else 0
    if count != vocabulary:
        raise CheckpointError(
            f"{where}: the drafter knows {vocabulary} tokens, the target's tokenizer has {count}",
            "use the target it was trained for",
        )


def _sizes(drafter: Drafter) -> Metadata:
    config, sizes = drafter.config, drafter.config.sizes
    if config.target_width != sizes.width:
        raise CheckpointError(
            f"{drafter.where}: a drafter {sizes.width} wide for a target of "
            f"{config.target_width} cannot be said in GGUF"
        )
    return size_keys(sizes)


def _rope(drafter: Drafter) -> Metadata:
    head_dim = drafter.config.sizes.head_dim
    rope = rope_fields(Fields(drafter.settings, drafter.where))
    keys: Metadata = {
        "rope.freq_base": float(rope.get("rope_theta", POSITIVE, DEFAULT_THETA)),
    }
    kind = rope.get("rope_type", TEXT, rope.get("type", TEXT, "default"))
    if kind == "linear":
        keys["rope.scaling.type"] = kind
        keys["rope.scaling.factor"] = float(rope.need("factor", POSITIVE))
    elif kind != "default":
        raise CheckpointError(
            f"{drafter.where}: rope scaling {kind[:40]!r} cannot be said in a GGUF drafter",
            "llama.cpp reads no divisors of angles for drafters; --to hf keeps it",
        )
    planes = drafter.target is not None and drafter.target.many_planes
    if isinstance(drafter.checkpoint, GgufCheckpoint):
        source = drafter.checkpoint
        planes |= f"{source.file.architecture}.rope.dimension_sections" in source.metadata
    if planes:
        sections = [head_dim // 2, 0, 0, 0]
        keys["rope.dimension_sections"] = Typed(ValueType.INT32, sections)
    return keys


def _windows(drafter: Drafter) -> Metadata:
    config = drafter.config
    if len(set(config.causal)) > 1:
        raise CheckpointError(
            f"{drafter.where}: some of its layers are causal and some are not, which GGUF cannot "
            "say and llama.cpp does not do",
            "set is_causal in its config.json to what it was trained with",
        )
    keys: Metadata = {"attention.causal": config.causal[0]}
    sizes = {window for window in config.windows if window is not None}
    if sizes:
        assert len(sizes) == 1, "one window for all sliding layers"
        keys["attention.sliding_window"] = sizes.pop()
        pattern = [window is not None for window in config.windows]
        keys["attention.sliding_window_pattern"] = Typed(ValueType.BOOL, pattern)
    return keys


def _drafting(drafter: Drafter) -> Metadata:
    config, selector = drafter.config, drafter.config.selector
    keys: Metadata = {
        "target_layers": Typed(ValueType.INT32, [tap + 1 for tap in config.taps]),
        "block_size": config.block,
    }
    if selector is not None:
        lattice = selector.candidates * (selector.candidates + 1)
        if config.sizes.width < lattice:
            raise CheckpointError(
                f"{drafter.where}: key selector_top_k {selector.candidates} needs a width of "
                f"{lattice} in llama.cpp, the drafter is {config.sizes.width} wide"
            )
        keys |= {
            "conv_kernel_size": selector.taps,
            "conv_group_size": selector.group,
            "selector_rank": selector.rank,
            "selector_top_k": selector.candidates,
        }
    if config.multiplier != 1.0:
        keys["logit_scale"] = float(config.multiplier)
    if config.embedding_scale != 1.0:
        keys["embedding_scale"] = float(config.embedding_scale)
    if config.softcap is not None:
        keys["final_logit_softcapping"] = float(config.softcap)
    return keys


def notes_for_llama_cpp(drafter: Drafter) -> list[str]:
    """What llama.cpp does otherwise, or refuses, in a file that is right all the same."""
    config, notes = drafter.config, []
    if config.bias:
        notes.append("llama.cpp refuses drafters whose attention has biases")
    if config.selector is None and config.multiplier != 1.0:
        notes.append("llama.cpp ignores a DFlash drafter's output_multiplier; only p_min sees it")
    if config.selector is None and config.softcap is not None:
        notes.append("llama.cpp ignores a DFlash drafter's softcap; only p_min sees it")
    inside = [window for window in config.windows if window is not None and window < config.block]
    if inside and not config.causal[0]:
        notes.append(
            f"in llama.cpp a window of {inside[0]} does not hide later rows of a block of "
            f"{config.block}"
        )
    if drafter.fingerprint is not None:
        notes.append("other engines need whole selector tables: convert with --target makes them")
    return notes
