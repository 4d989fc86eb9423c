"""Codes, scales and minima of Q4_K and Q5_K: value = (d * scale) * q - (dmin * minimum).

Every group first finds the real scale and minimum that fit it best, from a range of starts and by
alternating between rounding and least squares. Then the block's two units are chosen, the group's
integers near the best real ones are tried, and units and integers are fitted to each other again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from draftwalk.quant import Blocks, Values
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

_WIDTH = 32
_GROUPS = 8
_TOP_INTEGER = 63
_STARTS = tuple(np.linspace(0.87, 1.05, 21).tolist())  # of the codes for the span of a group
_ALTERNATIONS = 2
_ROUNDS = 2
_NEIGHBOURS = (0, -1, 1)  # the nearest wins ties


@dataclass(frozen=True)
class AffineCodes:
    """N blocks: units [N, 1] that fp16 can hold, integers of the groups [N, 8], codes [N, 256]."""

    d: Values
    dmin: Values
    scales: Blocks
    minima: Blocks
    q: Blocks


@dataclass(frozen=True)
class _Trial:
    """Units [N, 1], whole numbers of the groups [N * 8], and the error of every block [N, 1]."""

    d: Values
    dmin: Values
    scales: Values
    minima: Values
    error: Sums

    def real(self) -> tuple[Values, Values]:
        """Scales and minima in the units of the values, [N * 8]."""
        scale = per_group(self.d, _GROUPS) * self.scales
        return scale, per_group(self.dmin, _GROUPS) * self.minima


def affine_codes(blocks: Values, top: int) -> AffineCodes:
    """Codes 0..`top` for [N, 256] values."""
    with np.errstate(all="ignore"):
        x = columns(blocks, _WIDTH)
        scale, minimum = _fit_groups(x, top)
        d = unit_for(scale.reshape(-1, _GROUPS).max(axis=1, keepdims=True), _TOP_INTEGER)
        dmin = unit_for(minimum.reshape(-1, _GROUPS).max(axis=1, keepdims=True), _TOP_INTEGER)
        scales = ratio(scale, per_group(d, _GROUPS))
        best = _fit_integers(x, d, dmin, scales, ratio(minimum, per_group(dmin, _GROUPS)), top)
        for _ in range(_ROUNDS):
            d, dmin = _fit_units(x, best, top)
            best = _better(best, _fit_integers(x, d, dmin, best.scales, best.minima, top))
        q = _codes(x, *best.real(), top).T.reshape(-1, _GROUPS * _WIDTH)
    integers = [n.reshape(-1, _GROUPS).astype(np.uint8) for n in (best.scales, best.minima)]
    d = marked(best.d, blocks)
    return AffineCodes(d, best.dmin, integers[0], integers[1], q.astype(np.uint8))


def _codes(x: Values, scale: Values, minimum: Values, top: int) -> Values:
    steps = x + minimum
    steps *= ratio(np.ones_like(scale), scale)
    return rounded(steps, 0, top)


def _fit_groups(x: Values, top: int) -> tuple[Values, Values]:
    """Real scale and minimum (both 0 or more) of every group.

    The fit is that of y = x - low by scale * q + offset: sums of y do not cancel.
    """
    low = np.minimum(x.min(axis=0), np.float32(0))
    y = x - low
    sum_y = total(y)
    span = y.max(axis=0)
    offset = np.minimum(sum_y / np.float32(_WIDTH), -low)
    scale = np.zeros_like(offset)
    error = (np.float32(_WIDTH) * offset - 2 * sum_y) * offset
    for start in _STARTS:
        q = rounded(y * ratio(np.full_like(span, top * start), span), 0, top)
        scale, offset, error = _least_squares(q, y, sum_y, -low, (scale, offset, error))
    for _ in range(_ALTERNATIONS):
        q = _codes(y, scale, -offset, top)
        scale, offset, error = _least_squares(q, y, sum_y, -low, (scale, offset, error))
    return scale, -low - offset


def _least_squares(
    q: Values, y: Values, sum_y: Values, room: Values, best: tuple[Values, Values, Values]
) -> tuple[Values, Values, Values]:
    """Scale and offset (at most `room`) that fit y to q; those of `best` where they are better.

    The third number is the squared error without its constant, the sum of squares of y.
    """
    n = np.float32(_WIDTH)
    sum_qy, sum_q = total(q * y), total(q)
    sum_qq = squares(q)
    scale = ratio(n * sum_qy - sum_q * sum_y, n * sum_qq - sum_q * sum_q)
    offset = (sum_y - scale * sum_q) / n
    bounded = offset > room
    offset = np.where(bounded, room, offset)
    scale = np.where(bounded, ratio(sum_qy - room * sum_q, sum_qq), scale)
    scale = np.maximum(scale, np.float32(0))
    error = scale * (scale * sum_qq + 2 * (offset * sum_q - sum_qy))
    error += offset * (n * offset - 2 * sum_y)
    wins = error < best[2]
    return (
        np.where(wins, scale, best[0]),
        np.where(wins, offset, best[1]),
        np.where(wins, error, best[2]),
    )


def _fit_integers(
    x: Values, d: Values, dmin: Values, scales: Values, minima: Values, top: int
) -> _Trial:
    """Whole numbers near `scales` and `minima` that fit best with these units."""
    unit, unit_min = per_group(d, _GROUPS), per_group(dmin, _GROUPS)
    mean = total(x) / np.float32(_WIDTH)
    nearest, start = np.rint(scales), rounded(minima.copy(), 0, _TOP_INTEGER)
    error = np.full_like(mean, np.inf)
    best_scale, best_minimum = np.zeros_like(mean), np.zeros_like(mean)
    for step in _NEIGHBOURS:
        candidate = rounded(nearest + np.float32(step), 0, _TOP_INTEGER)
        real = unit * candidate
        q = _codes(x, real, unit_min * start, top)
        wanted = real * (total(q) / np.float32(_WIDTH)) - mean
        minimum = rounded(ratio(wanted, unit_min), 0, _TOP_INTEGER)
        q = _codes(x, real, unit_min * minimum, top)
        q *= real
        q -= unit_min * minimum
        q -= x
        trial = squares(q)
        wins = trial < error
        error = np.where(wins, trial, error)
        best_scale = np.where(wins, candidate, best_scale)
        best_minimum = np.where(wins, minimum, best_minimum)
    return _Trial(d, dmin, best_scale, best_minimum, per_block(error, _GROUPS))


def _fit_units(x: Values, trial: _Trial, top: int) -> tuple[Values, Values]:
    """The units that fit the codes of `trial` best, by least squares over the block."""
    u = _codes(x, *trial.real(), top)
    sum_q = total(u)
    u *= trial.scales
    v = trial.minima
    ux, uv = per_block(total(u * x), _GROUPS), per_block(v * trial.scales * sum_q, _GROUPS)
    vx, vv = per_block(v * total(x), _GROUPS), per_block(v * v, _GROUPS) * _WIDTH
    uu = per_block(squares(u), _GROUPS)
    determinant = uu * vv - uv * uv
    single = vv == 0
    d = np.where(single, ux / uu, (ux * vv - vx * uv) / determinant)
    dmin = np.where(single, 0, (ux * uv - vx * uu) / determinant)
    usable = np.isfinite(d) & np.isfinite(dmin) & (d > 0) & (dmin >= 0)
    return np.where(usable, as_half(d), trial.d), np.where(usable, as_half(dmin), trial.dmin)


def _better(first: _Trial, second: _Trial) -> _Trial:
    wins = second.error < first.error
    groups = np.repeat(wins[:, 0], _GROUPS)
    return _Trial(
        np.where(wins, second.d, first.d),
        np.where(wins, second.dmin, first.dmin),
        np.where(groups, second.scales, first.scales),
        np.where(groups, second.minima, first.minima),
        np.where(wins, second.error, first.error),
    )
