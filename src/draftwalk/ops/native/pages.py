"""K/V pages of the native back end: in fp16 or 8 bit, laid out for its attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from draftwalk import _native
from draftwalk.errors import RollbackError, UserError
from draftwalk.ops.memory import PAGE, KVType


class NativePool:
    """Pages of several layers; growing moves no page that is there.

    Args:
        layers: how many share the pages' numbers.
        heads: key/value heads.
        head_dim: values per head.
        kind: how K/V are stored.
    """

    def __init__(self, layers: int, heads: int, head_dim: int, kind: KVType) -> None:
        size = page_bytes(heads, head_dim, kind)
        self.memory = _native.Pages(kind, layers, heads, head_dim)
        # What saved pages are called says how they are laid out.
        self._name = f"{kind}.{heads}x{head_dim}"
        self._shape = (layers, size)

    @property
    def address(self) -> int:
        """Where kernels find it."""
        return self.memory.address

    @property
    def pages(self) -> int:
        """How many there are."""
        return self.memory.count

    @property
    def bytes(self) -> int:
        """Memory of all of them."""
        return self.memory.bytes

    def grow(self, pages: int) -> None:
        """Adds pages."""
        self.memory.grow(pages)

    def copy(self, source: int, into: int) -> None:
        """Copies a page in all layers."""
        self.memory.copy(source, into)

    def read(self, pages: Sequence[int]) -> dict[str, Tensor]:
        """Bytes [layers, pages, page], under a name that says how they are laid out."""
        layers, size = self._shape
        saved = torch.empty((layers, len(pages), size), dtype=torch.uint8)
        self.memory.read(pages, saved.data_ptr())
        return {self._name: saved}

    def write(self, pages: Sequence[int], saved: Mapping[str, Tensor]) -> None:
        """Writes saved pages."""
        layers, size = self._shape
        given = saved.get(self._name)
        if given is None or given.shape != (layers, len(pages), size):
            shapes = ", ".join(f"{name} {list(one.shape)}" for name, one in saved.items())
            raise RollbackError(f"saved K/V ({shapes}) does not fit {self._name}")
        self.memory.write(pages, given.contiguous().data_ptr())


def page_bytes(heads: int, head_dim: int, kind: KVType) -> int:
    """Bytes of a page of one layer.

    Raises:
        UserError: K/V of these heads cannot be stored so.
    """
    if kind == "f16":
        return 2 * PAGE * heads * head_dim * 2
    if head_dim % 32:
        raise UserError(
            f"K/V in 8 bit need heads of a multiple of 32 values, this model's have {head_dim}",
            "store them in f16",
        )
    scales = head_dim // 32
    return 2 * PAGE * heads * (head_dim + 4 * scales)
