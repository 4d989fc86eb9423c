"""A back end that only knows sizes: models are built and their states filled without memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor

from draftwalk.engine import Placement, find_device
from draftwalk.loop import CHUNK
from draftwalk.ops import Matrix
from draftwalk.ops.choice import chosen
from draftwalk.ops.memory import KVType, PagePool
from draftwalk.ops.shapes import META, ShapeOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.state import State
from draftwalk.weights import RawTensor


def back_end(placement: Placement) -> Literal["native", "torch"]:
    """What would compute.

    Raises:
        UserError: nothing can, as it is asked for.
    """
    return chosen(placement.back_end, find_device(placement.device), placement.dtype)


class Sizing(ShapeOperations):
    """Knows shapes, and the sizes that they have on the back end that would compute.

    Args:
        placement: where models would compute; the sizes are those of that back end.

    Attributes:
        weights: bytes of the weights that were taken; what is used twice is taken once.
    """

    def __init__(self, placement: Placement) -> None:
        super().__init__(placement.dtype)
        self.native = back_end(placement) == "native"
        self.weights = 0
        self._kv = placement.kv

    def matrix(self, raw: RawTensor) -> Matrix:
        """Notes a matrix."""
        self.weights += self.bytes_of(raw)
        return super().matrix(raw)

    def vector(self, raw: RawTensor, plus: float = 0.0) -> Tensor:
        """Notes a tensor."""
        tensor = super().vector(raw, plus)
        self.weights += tensor.nbytes
        return tensor

    def product(self, table: Matrix, factor: Matrix) -> Matrix:
        """Notes a factored table made whole."""
        made = super().product(table, factor)
        self.weights += made.bytes
        return made

    def page_pool(
        self, layers: int, heads: int, head_dim: int, kind: KVType | None = None
    ) -> PagePool:
        """Pages that are only counted."""
        if not self.native:
            return super().page_pool(layers, heads, head_dim, kind or self._kv)
        from draftwalk.ops.native.pages import page_bytes

        return CountedPages(layers * page_bytes(heads, head_dim, kind or self._kv))

    def bytes_of(self, raw: RawTensor) -> int:
        """Memory of a matrix."""
        if not self.native:
            return raw.size * self.dtype.itemsize
        from draftwalk.ops.native.matrix import packed_bytes

        return packed_bytes(raw)

    def row_bytes(self, raw: RawTensor) -> int:
        """What looking a row of a matrix up reads."""
        return raw.bytes // raw.shape[0] if self.native else raw.shape[1] * self.dtype.itemsize


class CountedPages:
    """A pool that holds nothing.

    Args:
        size: bytes of a page in all layers.
    """

    def __init__(self, size: int) -> None:
        self.pages = 0
        self._size = size

    @property
    def bytes(self) -> int:
        """Memory of as many pages."""
        return self.pages * self._size

    def grow(self, pages: int) -> None:
        """Counts."""
        self.pages = pages

    def copy(self, source: int, into: int) -> None:
        """Nothing is there to be copied."""

    def read(self, pages: Sequence[int]) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def write(self, pages: Sequence[int], saved: Mapping[str, Tensor]) -> None:
        """Nothing."""


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
