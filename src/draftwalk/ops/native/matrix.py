"""Weight matrices as the kernels read them: what the file says, put into another order at load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from draftwalk import _native
from draftwalk.ops import Linear, Matrix
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.weights.tensor import RawTensor, pack_tensor

FLOATS = ("f32", "f16", "bf16")


@dataclass(frozen=True, slots=True)
class NativeMatrix:
    """A packed matrix."""

    packed: _native.Matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.packed.outputs, self.packed.inputs

    @property
    def bytes(self) -> int:
        """Resident memory."""
        return self.packed.bytes

    @property
    def quantised(self) -> bool:
        """Whether products with it take int8 activations."""
        return self.packed.layout not in FLOATS


def pack(raw: RawTensor, runtime: _native.Runtime) -> NativeMatrix:
    """Packs a matrix [out, in], in every thread of the back end."""
    layout = layout_of(raw)
    if layout is None:
        raw = pack_tensor(raw.name, raw.unpack(), F32)
        layout = "f32"
    outputs, inputs = raw.shape
    data = np.ascontiguousarray(raw.data)
    packed = _native.pack(runtime, layout, data.ctypes.data, outputs, inputs)
    raw.forget()
    return NativeMatrix(packed)


def layout_of(raw: RawTensor) -> str | None:
    """The kernels' name of a tensor's format; `None` where they have none of it."""
    name = raw.format.NAME.lower()
    return name if name in _native.layouts() else None


def packed_bytes(raw: RawTensor) -> int:
    """Memory of a matrix once it is packed."""
    return _native.packed_bytes(layout_of(raw) or "f32", *raw.shape)


def native(matrix: Matrix) -> NativeMatrix:
    """The matrix, which this back end made."""
    assert isinstance(matrix, NativeMatrix), "a matrix of another back end"
    return matrix


def any_quantised(linears: tuple[Linear, ...]) -> bool:
    """Whether a product takes int8 activations."""
    return any(native(one.matrix).quantised for one in linears)


def any_float(linears: tuple[Linear, ...]) -> bool:
    """Whether a product takes fp32 activations."""
    return not all(native(one.matrix).quantised for one in linears)
