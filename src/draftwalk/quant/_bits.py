"""Pieces that several formats share: half-precision scales, nibbles, planes of high bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from draftwalk.quant import Blocks, Values

_NIBBLE_SHIFTS = np.array([[0], [4]], dtype=np.uint8)
_PAIR_SHIFTS = np.array([[0], [2], [4], [6]], dtype=np.uint8)
_BIT_SHIFTS = np.arange(8, dtype=np.uint8)


def half(blocks: Blocks, at: int) -> Values:
    """The fp16 number at byte `at` of every block, as float32 [N, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def nibbles(data: Blocks, run: int) -> Blocks:
    """Bytes to 4-bit values [N, 2 * bytes]: of every run first all low halves, then all high."""
    split = (data.reshape(len(data), -1, 1, run) >> _NIBBLE_SHIFTS) & np.uint8(0x0F)
    return split.reshape(len(data), -1)


def pairs(data: Blocks, run: int) -> Blocks:
    """Bytes to 2-bit values [N, 4 * bytes]: of every run first the lowest pair of all bytes."""
    split = (data.reshape(len(data), -1, 1, run) >> _PAIR_SHIFTS) & np.uint8(3)
    return split.reshape(len(data), -1)


def bits_across(data: Blocks) -> Blocks:
    """[N, 32] to [N, 256] of 0 and 1: bit g of byte j belongs to value 32 * g + j."""
    bits = (data[:, None, :] >> _BIT_SHIFTS[:, None]) & np.uint8(1)
    return bits.reshape(len(data), -1)


def bit_plane(data: Blocks) -> Blocks:
    """[N, bytes] to [N, 8 * bytes] of 0 and 1, lowest bit of the first byte first."""
    bits = (data[:, :, None] >> _BIT_SHIFTS) & np.uint8(1)
    return bits.reshape(len(data), -1)


def scales_and_minima(data: Blocks) -> tuple[Blocks, Blocks]:
    """The 12 bytes of Q4_K and Q5_K to 8 scales and 8 minima of 6 bits, [N, 8] each.

    Bytes 0..3 hold scales 0..3 and bytes 4..7 minima 0..3 in their low 6 bits; their top 2 bits
    are those of scales and minima 4..7, whose low 4 bits are the nibbles of bytes 8..11.
    """
    first, second, last = data[:, 0:4], data[:, 4:8], data[:, 8:12]
    six, top, low = np.uint8(0x3F), np.uint8(0x30), np.uint8(0x0F)
    scales = np.concatenate([first & six, (last & low) | ((first >> np.uint8(2)) & top)], axis=1)
    minima = np.concatenate(
        [second & six, (last >> np.uint8(4)) | ((second >> np.uint8(2)) & top)], axis=1
    )
    return scales, minima


def scaled(values: NDArray[np.uint8] | NDArray[np.int8] | Values, scale: Values) -> Values:
    """[N, values] times [N, groups]: each scale for its run of values."""
    grouped = values.reshape(*scale.shape, -1).astype(np.float32, copy=False)
    return (scale[:, :, None] * grouped).reshape(len(values), -1)
