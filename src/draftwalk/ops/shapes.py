"""A back end that only knows shapes: whole models are built without memory or arithmetic.

What a checkpoint gets wrong about names and shapes is found all the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftwalk.ops import Matrix
from draftwalk.ops.torch import DenseMatrix, TorchOperations
from draftwalk.weights import RawTensor

META = torch.device("meta")


class ShapeOperations(TorchOperations):
    """The torch back end on torch's `meta` device, where a tensor is a shape and a type."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(META, dtype)

    def matrix(self, raw: RawTensor) -> Matrix:
        """A matrix of that shape."""
        return DenseMatrix(torch.empty(raw.shape, dtype=self.dtype, device=META))

    def vector(self, raw: RawTensor, plus: float = 0.0) -> Tensor:
        """A tensor of that shape."""
        return torch.empty(raw.shape, dtype=self.dtype, device=META)
