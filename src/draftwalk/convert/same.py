"""Whether two configurations of a drafter mean the same."""

from __future__ import annotations

from dataclasses import asdict

from torch import Tensor

from draftwalk.draft.config import DrafterConfig

# GGUF keeps numbers in 32 bits.
_ROUNDING = 1e-6
# How rows of q and k are stored may change on the way, and the tensors with it.
_LEFT_OUT = "interleaved"


def differences(one: DrafterConfig, other: DrafterConfig) -> list[str]:
    """The names of what they do not agree on, up to rounding."""
    left, right = asdict(one), asdict(other)
    return [name for name in left if name != _LEFT_OUT and not _near(left[name], right[name])]


def _near(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return _near(one.tolist(), other.tolist())
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _ROUNDING * max(abs(one), abs(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_near(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_near(a, b) for a, b in pairs)
    return one == other
