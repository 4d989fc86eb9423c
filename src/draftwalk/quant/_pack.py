"""Pieces of writing blocks: the inverses of `_bits`, and ggml's one-pass choice of codes."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Blocks, Values

_HALF = np.float32(0.5)
_PAIR_SHIFTS = np.array([[0], [2], [4], [6]], dtype=np.uint8)


def half_bytes(scale: Values) -> Blocks:
    """[N, 1] numbers to fp16 bytes [N, 2]; too large becomes infinite."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(scale.astype("<f2")).view(np.uint8)


def join_nibbles(q: Blocks, run: int) -> Blocks:
    """4-bit values to bytes [N, values / 2]: the inverse of `nibbles`."""
    low_high = q.reshape(len(q), -1, 2, run)
    joined: Blocks = (low_high[:, :, 0] & np.uint8(0x0F)) | (low_high[:, :, 1] << np.uint8(4))
    return joined.reshape(len(q), -1)


def join_pairs(q: Blocks, run: int) -> Blocks:
    """2-bit values to bytes [N, values / 4]: the inverse of `pairs`."""
    split = q.reshape(len(q), -1, 4, run) << _PAIR_SHIFTS
    joined: Blocks = np.bitwise_or.reduce(split, axis=2)
    return joined.reshape(len(q), -1)


def join_bits_across(bits: Blocks) -> Blocks:
    """[N, 256] of 0 and 1 to [N, 32]: the inverse of `bits_across`."""
    return np.packbits(bits.reshape(len(bits), 8, 32), axis=1, bitorder="little").reshape(-1, 32)


def join_bit_plane(bits: Blocks) -> Blocks:
    """[N, bits] of 0 and 1 to bytes [N, bits / 8]: the inverse of `bit_plane`."""
    return np.packbits(bits, axis=1, bitorder="little")


def join_scales_and_minima(scales: Blocks, minima: Blocks) -> Blocks:
    """8 scales and 8 minima of 6 bits to 12 bytes: the inverse of `scales_and_minima`."""
    top_scales = (scales[:, 4:] >> np.uint8(4)) << np.uint8(6)
    top_minima = (minima[:, 4:] >> np.uint8(4)) << np.uint8(6)
    last = (scales[:, 4:] & np.uint8(0x0F)) | (minima[:, 4:] << np.uint8(4))
    return np.concatenate([scales[:, :4] | top_scales, minima[:, :4] | top_minima, last], axis=1)


def inverse(scale: Values) -> Values:
    """1 / scale, and 0 where that is not a number to multiply with."""
    with np.errstate(divide="ignore", over="ignore"):
        result = np.float32(1) / scale
    return np.where(np.isfinite(result), result, np.float32(0))


def codes_around(values: Values, middle: int) -> tuple[Values, Blocks]:
    """As ggml: the scale [N, 1] that makes the largest value code 0, and the codes.

    A code q means scale * (q - middle); q goes up to 2 * middle - 1.
    """
    largest = np.abs(values).argmax(axis=1, keepdims=True)
    scale = np.take_along_axis(values, largest, axis=1) / np.float32(-middle)
    shifted = values * inverse(scale) + (np.float32(middle) + _HALF)
    return scale, np.minimum(shifted, np.float32(2 * middle - 1)).astype(np.uint8)


def codes_above(values: Values, top: int) -> tuple[Values, Values, Blocks]:
    """As ggml: scale and minimum [N, 1] that span the values with codes 0..top, and the codes."""
    minimum = values.min(axis=1, keepdims=True)
    scale = (values.max(axis=1, keepdims=True) - minimum) / np.float32(top)
    shifted = (values - minimum) * inverse(scale) + _HALF
    return scale, minimum, np.minimum(shifted, np.float32(top)).astype(np.uint8)
