"""What the searches for K-quant codes share.

They minimise the plain sum of squared differences. Groups stand in columns, [values, groups]: sums
then run down the rows in one fixed order, which is fast and the same on every processor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from draftwalk.quant import Values

Sums = NDArray[np.float64]

_LARGEST = np.float32(65504)
_SMALLEST = np.float32(2.0**-24)
_OUT_OF_REACH = np.float32(2.0**30)  # larger than any K-quant can say; its square is no problem


def columns(blocks: Values, width: int) -> Values:
    """[N, values] to [width, N * groups], as numbers that can be searched with."""
    x = np.ascontiguousarray(blocks.reshape(-1, width).T)
    return np.clip(np.nan_to_num(x, copy=False), -_OUT_OF_REACH, _OUT_OF_REACH, out=x)


def marked(unit: Values, blocks: Values) -> Values:
    """The unit [N, 1], NaN where a block has values that are not finite: none of it is usable."""
    finite = np.isfinite(blocks).all(axis=1, keepdims=True)
    return np.where(finite, unit, np.float32(np.nan))


def ratio(above: Values, below: Values) -> Values:
    """above / below, and 0 where that is not a number: the answer of a group without extent."""
    result = above / below
    return np.where(np.isfinite(result), result, np.float32(0))


def rounded(steps: Values, low: float, high: float) -> Values:
    """Nearest whole numbers from `low` to `high`, in place."""
    np.rint(steps, out=steps)
    np.maximum(steps, np.float32(low), out=steps)
    return np.minimum(steps, np.float32(high), out=steps)


def squares(differences: Values) -> Values:
    """Sums of squares down the columns; the argument is overwritten."""
    return total(np.multiply(differences, differences, out=differences))


def total(values: Values) -> Values:
    """Sums down the columns."""
    return np.asarray(values.sum(axis=0), dtype=np.float32)


def per_block(groups: Values, count: int) -> Sums:
    """Sums over the `count` groups of every block, [N, 1], in double precision."""
    return np.asarray(groups.reshape(-1, count).sum(axis=1, keepdims=True, dtype=np.float64))


def per_group(blocks: Values, count: int) -> Values:
    """[N, 1] to [N * count]."""
    return np.repeat(blocks[:, 0], count)


def as_half(numbers: Values | Sums) -> Values:
    """Rounded to what fp16 can hold; too large becomes the largest."""
    return np.clip(numbers, -_LARGEST, _LARGEST).astype(np.float16).astype(np.float32)


def unit_for(largest: Values, codes: int) -> Values:
    """The fp16 unit in which `largest` (0 or more) has at most `codes` steps."""
    unit = as_half(largest / np.float32(codes))
    too_small = unit * (np.float32(codes) + np.float32(0.5)) < largest
    # Only units at the lower end of fp16 are rounded that far; there a step is 2 ** -24.
    return np.where(too_small, as_half(unit + _SMALLEST), unit)
