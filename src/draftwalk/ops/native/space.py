"""Memory at fixed addresses, and tensors that view it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from draftwalk import _native

_ITEMSIZE = {torch.float32: 4, torch.int64: 8}


class Space:
    """An arena whose memory tensors view.

    Args:
        reserve: bytes of address space; memory is taken only where something is written.
    """

    def __init__(self, reserve: int) -> None:
        self._arena = _native.Arena(reserve)
        self._start = self._arena.start
        floats = _native.tensor(self._start, self._arena.size // 4, self._arena)
        self._views = {torch.float32: floats, torch.int64: floats.view(torch.int64)}

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, int]:
        """A tensor, and the address of its memory, which is taken until that is released.

        They are not the same thing: torch says that an empty tensor lies nowhere.
        """
        address = self.take(math.prod(shape) * _ITEMSIZE[dtype])
        strides = [math.prod(shape[n + 1 :]) for n in range(len(shape))]
        offset = (address - self._start) // _ITEMSIZE[dtype]
        return self._views[dtype].as_strided(shape, strides, offset), address

    def take(self, size: int) -> int:
        """The address of `size` bytes."""
        return self._arena.allocate(size)

    def release(self, address: int) -> None:
        """Gives what was taken back."""
        self._arena.release(address)

    def reset(self) -> None:
        """Gives everything back."""
        self._arena.reset()

    @property
    def in_use(self) -> int:
        """Bytes that are taken."""
        return self._arena.in_use
