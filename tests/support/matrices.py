"""Matrices of every layout, from bytes of our own generator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from draftwalk.quant import Format, formats_by_name
from draftwalk.weights.tensor import RawTensor
from support.kernels import words

HALVES: Mapping[str, tuple[int, ...]] = {
    "Q8_0": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "MXFP4": (),
}
"""Where the fp16 numbers of a block of each quantised format stand."""

FLOATS = ("F32", "F16", "BF16")
LAYOUTS = (*FLOATS, *HALVES)


def width_of(name: str, at_least: int) -> int:
    """The least width from `at_least` on that whole blocks fill."""
    block = formats_by_name()[name].BLOCK
    return -(-at_least // block) * block


def random_matrix(name: str, outputs: int, inputs: int, seed: int) -> RawTensor:
    """Random codes and sub-scales; factors of moderate size, some of them negative."""
    format_ = formats_by_name()[name]
    count = outputs * inputs // format_.BLOCK
    if name in FLOATS:
        return _floats(format_, outputs, inputs, seed)
    raw = words(seed, count * format_.BYTES) >> np.uint64(56)
    blocks = raw.astype(np.uint8).reshape(count, format_.BYTES)
    for n, at in enumerate(HALVES[name]):
        drawn = words(seed + 1000 + n, count)
        values = ((drawn >> np.uint64(52)).astype(np.float32) - 2048) / 2048 / 64
        blocks[:, at : at + 2] = values.astype("<f2")[:, None].view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = 118 + (words(seed + 1000, count) % np.uint64(6)).astype(np.uint8)
    return RawTensor("random", (outputs, inputs), format_, blocks.reshape(-1))


def extreme_matrix(name: str, outputs: int, inputs: int) -> RawTensor:
    """All codes at one of their ends, an output each; factors that leave whole numbers."""
    format_ = formats_by_name()[name]
    per_row = inputs // format_.BLOCK
    rows: list[NDArray[np.uint8]] = []
    for output in range(outputs):
        byte = (0xFF, 0x00, 0x80, 0x7F, 0xF0, 0x0F)[output % 6]
        rows.append(np.full((per_row, format_.BYTES), byte, np.uint8))
    blocks = np.concatenate(rows)
    for at in HALVES[name]:
        blocks[:, at : at + 2] = np.array([1.0], "<f2").view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = 128  # scale 1 of the doubled table
    return RawTensor("extreme", (outputs, inputs), format_, blocks.reshape(-1))


def _floats(format_: Format, outputs: int, inputs: int, seed: int) -> RawTensor:
    drawn = words(seed, outputs * inputs) >> np.uint64(40)
    values = drawn.astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)
    if format_.NAME == "F32":
        data = values.view(np.uint8)
    elif format_.NAME == "F16":
        data = values.astype("<f2").view(np.uint8)
    else:
        data = np.ascontiguousarray(values.view("<u2")[1::2]).view(np.uint8)
    return RawTensor("random", (outputs, inputs), format_, data)
