"""From one block format to another, tensor by tensor, with everything that could go wrong told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from draftwalk.errors import CheckpointError
from draftwalk.quant import IntegerFormat, PackingFormat, formats_by_name
from draftwalk.weights import PlannedTensor, RawTensor, pack_integers, pack_tensor

_LARGEST_HALF = 65504.0


def cast(tensor: PlannedTensor, into: PackingFormat) -> PlannedTensor:
    """The tensor in another format; in the same, its bytes as they are.

    Raises:
        CheckpointError: when it is made: values not finite, or that the format cannot hold.
    """
    if isinstance(tensor.format, IntegerFormat):
        raise CheckpointError(f"tensor {tensor.name} holds whole numbers where weights are needed")

    def make() -> RawTensor:
        raw = tensor.made()
        if tensor.format is into:
            _check_finite(tensor.name, raw.is_finite())
            return raw
        values = raw.unpack()
        _check(tensor.name, values, into)
        packed = pack_tensor(tensor.name, values, into)
        if into.BLOCK > 1 and not packed.is_finite():
            raise CheckpointError(f"tensor {tensor.name} has values too large for {into.NAME}")
        raw.forget()
        return packed

    return replace(tensor, format=into, make=make)


def is_exact(tensor: PlannedTensor, into: PackingFormat) -> bool:
    """Whether every value stays what it is in the other format."""
    if tensor.format is into:
        return True
    values = tensor.made().unpack()
    back = pack_tensor(tensor.name, values, into).unpack()
    return bool(np.array_equal(back, values))


def _check(name: str, values: NDArray[np.float32], into: PackingFormat) -> None:
    _check_finite(name, bool(np.isfinite(values).all()))
    if into.NAME == "F16" and np.abs(values).max(initial=0.0) > _LARGEST_HALF:
        raise CheckpointError(f"tensor {name} has values too large for F16", "take BF16 or F32")


def _check_finite(name: str, finite: bool) -> None:
    if not finite:
        raise CheckpointError(
            f"tensor {name} has values that are not finite", "the checkpoint is damaged"
        )


def cast_integers(tensor: PlannedTensor, name: str) -> PlannedTensor:
    """Whole numbers in another format of them.

    Raises:
        CheckpointError: they do not fit.
    """
    into = formats_by_name()[name]
    if tensor.format is into:
        return tensor
    if not isinstance(into, IntegerFormat):
        raise CheckpointError(f"tensor {tensor.name} holds whole numbers, {name} is for weights")

    def make() -> RawTensor:
        values = tensor.made().integers()
        bits = 8 * into.BYTES - 1
        if values.size and not -(1 << bits) <= values.min() <= values.max() < 1 << bits:
            raise CheckpointError(f"tensor {tensor.name} has numbers too large for {name}")
        return pack_integers(tensor.name, values, into)

    return replace(tensor, format=into, make=make)
