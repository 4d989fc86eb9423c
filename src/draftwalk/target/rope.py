"""Rotation frequencies from a configuration, for targets and drafters alike.

Types of scaling: none, `linear`, `llama3` (Hugging Face's names). Others are refused by name, and
so is a setting that the type does not know.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.errors import UserError
from draftwalk.weights.config_keys import ROPE_HARMLESS
from draftwalk.weights.fields import COUNT, MAPPING, POSITIVE, TEXT, Fields

MOST_POSITIONS = 1 << 20
DEFAULT_THETA = 10000.0
_LAYER_TYPES = ("full_attention", "sliding_attention")


def rope_fields(config: Fields, layer_type: str | None = None) -> Fields:
    """What a configuration says about rope, old and new spellings as one.

    Args:
        config: with `rope_theta` and `rope_scaling`, or with newer files' `rope_parameters`.
        layer_type: which entry of `rope_parameters` to take, where it has one per layer type.
    """
    values: dict[str, object] = {}
    if config.get("rope_theta", POSITIVE, None) is not None:
        values["rope_theta"] = config.raw("rope_theta")
    if config.get("partial_rotary_factor", POSITIVE, None) is not None:
        values["partial_rotary_factor"] = config.raw("partial_rotary_factor")
    values |= config.get("rope_scaling", MAPPING, {})
    newer = config.table("rope_parameters")
    if layer_type is not None and (own := newer.get(layer_type, MAPPING, None)) is not None:
        newer.ignore(*_LAYER_TYPES)
        newer.finish((), {})
        return Fields({**values, **own}, f"{config.where} rope")
    return Fields({**values, **newer.values}, f"{config.where} rope")


def rope_frequencies(rope: Fields, head_dim: int, theta: float = DEFAULT_THETA) -> Tensor:
    """Inverse frequencies [D / 2] in float64.

    Args:
        rope: all that is said about it.
        head_dim: D.
        theta: the base, if nothing is said.

    Raises:
        CheckpointError: a kind of scaling that is not implemented, or a setting that is not known.
    """
    base = rope.get("rope_theta", POSITIVE, theta)
    plain = _plain(base, head_dim)
    kind = rope.get("rope_type", TEXT, rope.get("type", TEXT, "default"))
    if rope.get("partial_rotary_factor", POSITIVE, 1.0) != 1.0:
        rope.fail("partial_rotary_factor is not implemented", "only heads that turn whole are")
    if kind == "linear":
        plain = plain / rope.need("factor", POSITIVE)
    elif kind == "llama3":
        plain = _llama3(plain, rope)
    elif kind != "default":
        rope.fail(f"scaling {kind!r} is not implemented", "implemented: default, linear, llama3")
    rope.finish(ROPE_HARMLESS, {})
    return plain


def rope_divisors(rope: Fields, head_dim: int) -> Tensor | None:
    """What Llama 3's scaling divides every plain frequency by [D / 2]; `None` without it."""
    if rope.get("rope_type", TEXT, rope.get("type", TEXT, "default")) != "llama3":
        return None
    base = rope.get("rope_theta", POSITIVE, DEFAULT_THETA)
    plain = _plain(base, head_dim)
    return plain / _llama3(plain, rope)


def _plain(base: float, head_dim: int) -> Tensor:
    return base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)


def _llama3(plain: Tensor, rope: Fields) -> Tensor:
    """Long wavelengths divided by `factor`, short ones kept, a ramp between."""
    low = rope.need("low_freq_factor", POSITIVE)
    high = rope.need("high_freq_factor", POSITIVE)
    original = rope.need("original_max_position_embeddings", COUNT)
    wavelength = 2 * math.pi / plain
    ramp = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - ramp) * plain / rope.need("factor", POSITIVE) + ramp * plain


def half_split_order(heads: int, head_dim: int) -> NDArray[np.intp]:
    """Which stored rows make half-split heads, where heads are stored for adjacent-pair rotation.

    Element i of a half-split head turns with element i + D / 2; they are stored at 2i and 2i + 1.
    """
    stored: NDArray[np.intp] = np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2)
    return stored.transpose(0, 2, 1).reshape(-1)


def rope_table(inverse: Tensor, positions: int) -> tuple[Tensor, Tensor]:
    """cos and sin [positions, D / 2] in float64.

    Raises:
        UserError: more positions than a table is made for.
    """
    if positions > MOST_POSITIONS:
        raise UserError(
            f"a context of {positions} tokens is more than rope tables are made for",
            f"give a smaller one: -c, up to {MOST_POSITIONS}",
        )
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * inverse
    return angle.cos(), angle.sin()
