"""What a DFlash or DFlash2 checkpoint says of itself.

Keys and lookup order follow the public `dflash` package: first the nested `dflash_config`, then the
top level, then the default. What is not implemented is refused by name. This is the one place that
says what a configuration means: two that read the same are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from draftwalk.target.blueprint import Sizes
from draftwalk.target.rope import rope_fields, rope_frequencies
from draftwalk.weights.config_keys import HARMLESS, NEUTRAL
from draftwalk.weights.fields import (
    BLOCK,
    COUNT,
    FLAG,
    INDEX,
    INDEXES,
    MAPPING,
    NUMBER,
    NUMBERS,
    POSITIVE,
    TEXTS,
    Fields,
)
from draftwalk.window import Calibration

# Keys of other drafter families and of parts that are not implemented, where they are switched off.
_OFF: Mapping[str, object] = {
    "projector_type": False,  # Domino
    "sample_from_anchor": False,  # DSpark: the anchor row predicts
    "has_confidence_head": False,  # DSpark
    "markov_head_type": False,  # DSpark
    "attention_value_scale": 1,
    "dflash_context_residual": False,
    "dflash_block_position_embedding": False,
    "quantization_config": False,
    "speculators_model_type": False,  # another layout of the same drafters
    "is_neox_style": True,  # below the top level, where nobody looks for it
    "rope_is_neox_style": True,
}
# Known from elsewhere: the vocabulary's tables are the target's or are among the tensors, and the
# target's depth is checked against the taps. Which layers slide is for layer_types to say.
_ELSEWHERE = {"tie_word_embeddings", "num_target_layers", "max_window_layers"}
# This package's own table in config.json, which other engines pass over.
OWN_TABLE = "draftwalk"
VOCABULARY_KEY = "draft_vocabulary"
WINDOW_KEY = "window"  # a table: how confidence and acceptance belong together


@dataclass(frozen=True, slots=True)
class SelectorConfig:
    """DFlash2's parts: convolution taps and channels per group, selector rank and candidates."""

    taps: int
    group: int
    rank: int
    candidates: int


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """A DFlash drafter; with `selector`, a DFlash2 drafter.

    Attributes:
        sizes: dimensions, as of a target; `depth` counts its own layers, `vocabulary` the target's
            tokens.
        head_rows: rows of its own head where they are fewer than the target's tokens.
        listed: ids of a reduced draft vocabulary beside it, ascending, or `None`.
        rope: inverse frequencies [D / 2], float64.
        interleaved: q/k rows are stored for rotation of adjacent pairs.
        bias: q, k, v and output projections have one.
        sinks: every layer has a sink's logit for each head.
        taps: target layers, 0-based, in the order their features are joined.
        target_width: width of the target's rows.
        block: rows of a block, anchor included.
        mask: id of the mask token.
        windows: each layer's window, or `None`.
        causal: whether each layer's block rows see only those before them.
        embedding_scale, multiplier, softcap: on embeddings, on logits, and their cap.
        selector: DFlash2's parts, or `None`.
        calibration: how confidence and acceptance belong together, if it says so.
    """

    sizes: Sizes
    head_rows: int
    listed: tuple[int, ...] | None
    rope: Tensor
    interleaved: bool
    bias: bool
    sinks: bool
    taps: tuple[int, ...]
    target_width: int
    block: int
    mask: int
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    embedding_scale: float
    multiplier: float
    softcap: float | None
    selector: SelectorConfig | None
    calibration: Calibration | None

    @staticmethod
    def read(config: Mapping[str, object], where: str) -> DrafterConfig:
        """Reads `config.json`, or what a GGUF file says in its terms.

        Args:
            config: the parsed configuration.
            where: the checkpoint, for messages.
        """
        top = Fields(config, where)
        own = top.table("dflash_config")
        fields = Fields(own.values, where, own.prefix, behind=top)
        top.refuse_unless("hidden_act", "silu")
        sizes = Sizes.read(top)
        rows = _head_rows(fields, sizes)
        windows = _windows(fields, sizes.depth)
        block = fields.get("block_size", BLOCK, 16)
        read = DrafterConfig(
            sizes=sizes,
            head_rows=rows,
            listed=_listed(top),
            rope=rope_frequencies(rope_fields(top), sizes.head_dim),
            interleaved=not (
                top.get("is_neox_style", FLAG, True) and top.get("rope_is_neox_style", FLAG, True)
            ),
            bias=top.get("attention_bias", FLAG, False),
            sinks=fields.get("attention_sink_bias", FLAG, False),
            taps=_taps(fields, sizes.depth),
            target_width=fields.get("target_hidden_size", COUNT, sizes.width),
            block=block,
            mask=fields.need("mask_token_id", INDEX),
            windows=windows,
            causal=_causal(fields, windows),
            embedding_scale=fields.get("input_embedding_scale", POSITIVE, 1.0),
            multiplier=fields.get("output_multiplier", POSITIVE, 1.0),
            softcap=fields.get("final_logit_softcapping", NUMBER, 0.0) or None,
            selector=_selector(fields, sizes, rows),
            calibration=_calibration(top, block - 1),
        )
        fields.finish(HARMLESS | _ELSEWHERE, {**NEUTRAL, **_OFF})
        return read.checked(fields)

    def checked(self, fields: Fields) -> DrafterConfig:
        """Itself, after the sizes were found to make sense."""
        vocabulary = self.sizes.vocabulary
        if self.mask >= vocabulary:
            fields.fail(f"key mask_token_id {self.mask} is not among its {vocabulary} tokens")
        if self.softcap is not None and self.softcap < 0:
            fields.fail(
                f"key final_logit_softcapping is {self.softcap}, expected a positive number"
            )
        if not bool(self.rope.isfinite().all()):
            fields.fail("key rope_theta or rope_scaling turns heads by no finite angle")
        return self


def _head_rows(fields: Fields, sizes: Sizes) -> int:
    rows = fields.get("draft_vocab_size", COUNT, sizes.vocabulary)
    if rows > sizes.vocabulary:
        fields.fail(f"key draft_vocab_size {rows} is above the vocabulary of {sizes.vocabulary}")
    return rows


def _listed(top: Fields) -> tuple[int, ...] | None:
    """Ids of this package's own table, which holds other things as well."""
    own = top.table(OWN_TABLE)
    ids = own.get(VOCABULARY_KEY, INDEXES, None)
    return None if ids is None else tuple(ids)


def _calibration(top: Fields, positions: int) -> Calibration | None:
    """The table beside it; nothing is computed from it but windows, yet it must make sense."""
    own = top.table(OWN_TABLE)
    if own.get(WINDOW_KEY, MAPPING, None) is None:
        return None
    table = own.table(WINDOW_KEY)
    bias, slope = (tuple(table.need(key, NUMBERS)) for key in ("bias", "slope"))
    if len(bias) != positions or len(slope) != positions:
        table.fail(
            f"key {table.prefix}bias and slope have {len(bias)} and {len(slope)} values for "
            f"{positions} drafted tokens"
        )
    if min(slope) < 0:
        table.fail(f"key {table.prefix}slope has {min(slope):g}, expected numbers from 0")
    heat, labels = table.get("heat", NUMBER, 0.0), table.get("labels", INDEX, 0)
    return Calibration(bias, slope, heat, labels)


def _taps(fields: Fields, depth: int) -> tuple[int, ...]:
    """The layers named, or where older files name none, the public package's even spread."""
    taps = fields.get("target_layer_ids", INDEXES, None)
    if taps is not None:
        if not taps:
            fields.fail("key target_layer_ids names no layer")
        return tuple(taps)
    layers = fields.need("num_target_layers", COUNT)
    if depth > 1 and layers < 4:
        fields.fail("key target_layer_ids is missing", "name the target layers it listens to")
    return even_spread(layers, depth)


def even_spread(layers: int, count: int) -> tuple[int, ...]:
    """The taps of a drafter of `count` layers that names none, in a target of `layers`."""
    if count == 1:
        return (layers // 2,)
    return tuple(round(1 + i * (layers - 4) / (count - 1)) for i in range(count))


def _windows(fields: Fields, depth: int) -> tuple[int | None, ...]:
    fields.ignore("use_sliding_window", "sliding_window", "layer_types", "swa_window_size")
    if fields.get("use_swa", FLAG, False):
        return (fields.need("swa_window_size", COUNT),) * depth
    types = fields.get("layer_types", TEXTS, None) or ["full_attention"] * depth
    if len(types) != depth:
        fields.fail(f"key layer_types names {len(types)} of {depth} layers")
    unknown = sorted(set(types) - {"full_attention", "sliding_attention"})
    if unknown:
        fields.fail(f"layer type {unknown[0][:40]!r} is not implemented")
    if "sliding_attention" not in types:
        return (None,) * depth
    if fields.get("use_sliding_window", FLAG, True) is False:
        fields.fail(
            "key use_sliding_window is false, yet layer_types has sliding layers",
            "engines disagree what that means; correct one of the two",
        )
    window = fields.need("sliding_window", COUNT)
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _causal(fields: Fields, windows: tuple[int | None, ...]) -> tuple[bool, ...]:
    """Whether each layer is causal: as said, else sliding layers are and full ones are not."""
    said = [fields.get(key, FLAG, None) for key in ("is_causal", "causal")]
    for causal in said:
        if causal is not None:
            return (causal,) * len(windows)
    if fields.get("use_swa", FLAG, False):
        return (False,) * len(windows)
    return tuple(window is not None for window in windows)


def _selector(fields: Fields, sizes: Sizes, rows: int) -> SelectorConfig | None:
    keys = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
    values = [fields.get(key, COUNT, None) for key in keys]
    if not any(values):
        return None
    taps, group, rank, candidates = (fields.need(key, COUNT) for key in keys)
    if sizes.width % group:
        fields.fail(f"key conv_group_size {group} does not divide the width {sizes.width}")
    if candidates > rows:
        fields.fail(f"key selector_top_k {candidates} is above the vocabulary of {rows}")
    return SelectorConfig(taps, group, rank, candidates)
