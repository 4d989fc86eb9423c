"""A back end that only knows sizes: models are built and their states filled without memory."""

from __future__ import annotations

import torch

from draftwalk.loop import CHUNK
from draftwalk.ops import Matrix
from draftwalk.ops.torch import DenseMatrix, TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.state import State
from draftwalk.weights import RawTensor

META = torch.device("meta")


class Sizing(TorchOperations):
    """The torch back end on torch's `meta` device, where a tensor is a shape and a type.

    Whatever a checkpoint gets wrong about names and shapes is found all the same.

    Attributes:
        weights: bytes of the weights that were taken; what is used twice is taken once.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(META, dtype)
        self.weights = 0

    def matrix(self, raw: RawTensor) -> Matrix:
        """Notes a matrix."""
        return DenseMatrix(self.vector(raw))

    def vector(self, raw: RawTensor, plus: float = 0.0) -> torch.Tensor:
        """Notes a tensor."""
        tensor = torch.empty(raw.shape, dtype=self.dtype, device=META)
        self.weights += tensor.nbytes
        return tensor

    def product(self, table: Matrix, factor: Matrix) -> Matrix:
        """Notes a factored table made whole."""
        made = super().product(table, factor)
        self.weights += made.bytes
        return made


def state_bytes(state: State, tokens: int) -> int:
    """Most memory that a state on the `meta` device allocates while it takes a text in."""
    state.open(0)
    most = 0
    for start in range(0, tokens, CHUNK):
        size = min(CHUNK, tokens - start)
        rows = Rows.lay_out([Rowset(0, [0] * size, start, "none")], META)
        state.begin(rows)
        most = max(most, state.bytes)
        state.commit({0: size})
    state.close(0)
    return most
