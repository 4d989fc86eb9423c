"""Codes and scales of Q6_K: value = (d * scale) * q with signed scales and q from -32 to 31.

The same steps as in the affine search, without minima: real scales of the groups, the block's unit,
whole numbers near the real scales, and the unit fitted to them again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftwalk.quant import Values
from draftwalk.quant._search import (
    Sums,
    as_half,
    columns,
    marked,
    per_block,
    per_group,
    ratio,
    rounded,
    squares,
    total,
    unit_for,
)

_WIDTH = 16
_GROUPS = 16
_LOW, _HIGH = -32, 31
_LOW_INTEGER, _HIGH_INTEGER = -128, 127
# Steps from zero to the value of largest size: down, because there is one code more.
_STARTS = (*np.linspace(-33.0, -31.0, 11).tolist(), *np.linspace(-30.5, -25.0, 12).tolist())
_ROUNDS = 2
_NEIGHBOURS = (0, -1, 1)  # the nearest wins ties


@dataclass(frozen=True)
class SymmetricCodes:
    """N blocks: units [N, 1] that fp16 can hold, group integers [N, 16], codes [N, 256]."""

    d: Values
    scales: NDArray[np.int8]
    q: NDArray[np.int8]


@dataclass(frozen=True)
class _Trial:
    """Units [N, 1], whole numbers of the groups [N * 16], and the error of every block [N, 1]."""

    d: Values
    scales: Values
    error: Sums

    def real(self) -> Values:
        """Scales in the units of the values, [N * 16]."""
        return per_group(self.d, _GROUPS) * self.scales


def symmetric_codes(blocks: Values) -> SymmetricCodes:
    """Codes for [N, 256] values."""
    with np.errstate(all="ignore"):
        x = columns(blocks, _WIDTH)
        scale = _fit_groups(x)
        d = _first_unit(scale)
        best = _fit_integers(x, d, ratio(scale, per_group(d, _GROUPS)))
        for _ in range(_ROUNDS):
            trial = _fit_integers(x, _fit_unit(x, best), best.scales)
            best = _better(best, trial)
        q = _codes(x, best.real()).T.reshape(-1, _GROUPS * _WIDTH)
    scales = best.scales.reshape(-1, _GROUPS).astype(np.int8)
    return SymmetricCodes(marked(best.d, blocks), scales, q.astype(np.int8))


def _codes(x: Values, scale: Values) -> Values:
    return rounded(x * ratio(np.ones_like(scale), scale), _LOW, _HIGH)


def _fit_groups(x: Values) -> Values:
    """The real scale of every group, with its sign."""
    row = np.abs(x).argmax(axis=0)
    largest: Values = np.take_along_axis(x, row[None], axis=0)[0]
    best, gain = np.zeros_like(largest), np.zeros_like(largest)
    for start in _STARTS:
        q = rounded(x * ratio(np.full_like(largest, start), largest), _LOW, _HIGH)
        sum_qx = total(q * x)
        scale = ratio(sum_qx, squares(q))
        wins = scale * sum_qx > gain
        best, gain = np.where(wins, scale, best), np.where(wins, scale * sum_qx, gain)
    return best


def _first_unit(scale: Values) -> Values:
    """The unit, with its sign, in which the scale of largest size becomes -128."""
    blocks = scale.reshape(-1, _GROUPS)
    row = np.abs(blocks).argmax(axis=1, keepdims=True)
    largest = np.take_along_axis(blocks, row, axis=1)
    unit = unit_for(np.abs(largest), -_LOW_INTEGER)
    return np.where(largest > 0, -unit, unit)


def _fit_integers(x: Values, d: Values, scales: Values) -> _Trial:
    """Whole numbers near `scales` that fit best with these units."""
    unit = per_group(d, _GROUPS)
    nearest = np.rint(scales)
    best, error = np.zeros_like(nearest), np.full_like(nearest, np.inf)
    for step in _NEIGHBOURS:
        candidate = rounded(nearest + np.float32(step), _LOW_INTEGER, _HIGH_INTEGER)
        real = unit * candidate
        q = _codes(x, real)
        q *= real
        q -= x
        trial = squares(q)
        wins = trial < error
        best, error = np.where(wins, candidate, best), np.where(wins, trial, error)
    return _Trial(d, best, per_block(error, _GROUPS))


def _fit_unit(x: Values, trial: _Trial) -> Values:
    """The unit that fits the codes of `trial` best, by least squares over the block."""
    u = _codes(x, trial.real())
    u *= trial.scales
    ux = per_block(total(u * x), _GROUPS)
    d = ux / per_block(squares(u), _GROUPS)
    return np.where(np.isfinite(d), as_half(d), trial.d)


def _better(first: _Trial, second: _Trial) -> _Trial:
    wins = second.error < first.error
    return _Trial(
        np.where(wins, second.d, first.d),
        np.where(np.repeat(wins[:, 0], _GROUPS), second.scales, first.scales),
        np.where(wins, second.error, first.error),
    )
