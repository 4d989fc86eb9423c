"""Random numbers as a pure function of what they are for: (seed, choice, position, purpose, id).

There is no generator and no state, so a number does not depend on the step, the window or the
company in which it is asked for. Position is the absolute position of the token that is chosen.

The mixing function is the output function of SplitMix64 (G. Steele, D. Lea, C. Flood: Fast
splittable pseudorandom number generators, OOPSLA 2014; its constants are D. Stafford's variant 13
of the MurmurHash3 finaliser). It is a bijection of 64 bits, applied in three nested streams: the
seed gives the start of a stream indexed by (choice, purpose, position), each of whose values is a
draw, or, for the purpose TOKEN, the start of a stream indexed by token id. For one seed, different
(choice, purpose, position) therefore never share a value of the middle stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.settings import SEED_LIMIT

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd: multiples of it visit all of 64 bits
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB

_POSITION_BITS = 40
_PURPOSE_BITS = 2
_CHOICE_BITS = 22


class Purpose(IntEnum):
    """What a random number decides. Numbers of different purposes share nothing."""

    TOKEN = 0  # the coupled rule's exponentials, one per token id
    DRAFT = 1  # rejection: the drafter's draw from q
    ACCEPT = 2  # rejection: whether a drafted token is accepted
    RESIDUAL = 3  # rejection: the correction or bonus token


@dataclass(frozen=True)
class Noise:
    """All random numbers of one choice of one request."""

    seed: int
    choice: int = 0

    def __post_init__(self) -> None:
        assert 0 <= self.seed < SEED_LIMIT, "settings let only 64-bit seeds pass"
        assert 0 <= self.choice < 1 << _CHOICE_BITS, "more choices than keys"

    def key(self, position: int, purpose: Purpose) -> int:
        """64 bits that are different for each (choice, purpose, position) of this seed."""
        return _mix(self.unmixed(position, purpose))

    def unmixed(self, position: int, purpose: Purpose) -> int:
        """What a key is mixed from. It grows by the same step from each position to the next."""
        assert 0 <= position < 1 << _POSITION_BITS, "position outside what a key can hold"
        index = ((self.choice << _PURPOSE_BITS) | purpose) << _POSITION_BITS | position
        return (self._first + (index + 1) * _GOLDEN) & _MASK

    @cached_property
    def _first(self) -> int:
        return _mix(self.seed + _GOLDEN)

    def uniform(self, position: int, purpose: Purpose) -> float:
        """The one number in (0, 1) with this purpose at this position.

        53 bits k give k / 2^53, and half a step for k = 0, so neither 0 nor 1 occurs.
        """
        assert purpose is not Purpose.TOKEN, "the coupled rule draws per token id"
        return max(self.key(position, purpose) >> 11, 0.5) * 2.0**-53

    def uniforms(self, position: int, ids: Tensor) -> Tensor:
        """One number in (0, 1) per token id ([S] int64 to [S] float64, on the device of ids)."""
        if ids.device.type == "cpu":  # numpy has less to do per call, and most supports are short
            return torch.from_numpy(self.uniforms_on_host(position, ids.numpy()))
        bits = _stream(ids, self.key(position, Purpose.TOKEN))
        return bits.to(torch.float64).clamp_(min=0.5).mul_(2.0**-53)

    def uniforms_on_host(self, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same numbers for and as an array."""
        bits = _stream(ids, self.key(position, Purpose.TOKEN))
        return np.maximum(bits, 0.5) * 2.0**-53

    def exponentials(self, position: int, ids: Tensor) -> Tensor:
        """One exponential variate of mean 1 per token id ([S] float64).

        -log1p(-u) keeps full precision where u is small, and only small ones ever win a race.
        """
        return torch.log1p(self.uniforms(position, ids).neg_()).neg_()


def exponential(u: float) -> float:
    """The exponential variate of one uniform."""
    return -math.log1p(-u)


def _mix(z: int) -> int:
    z &= _MASK
    z = (z ^ (z >> 30)) * _FIRST & _MASK
    z = (z ^ (z >> 27)) * _SECOND & _MASK
    return z ^ (z >> 31)


def _signed(z: int) -> int:
    z &= _MASK
    return z - 2**64 if z >> 63 else z


_Integers = TypeVar("_Integers", Tensor, NDArray[np.int64])


def _stream(ids: _Integers, start: int) -> _Integers:
    """The upper 53 bits of value number ids of the stream that starts at `start`.

    Written once for torch and numpy. Signed products and sums wrap as unsigned ones do; a signed
    shift to the right needs its upper bits cleared to be the unsigned one.
    """
    z = ids * _signed(_GOLDEN)
    z += _signed(start + _GOLDEN)
    z ^= (z >> 30) & ((1 << 34) - 1)
    z *= _signed(_FIRST)
    z ^= (z >> 27) & ((1 << 37) - 1)
    z *= _signed(_SECOND)
    z ^= (z >> 31) & ((1 << 33) - 1)
    return (z >> 11) & ((1 << 53) - 1)
