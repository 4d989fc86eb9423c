"""A tensor that is made when a writer comes to it, so that one at a time is in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from draftwalk.quant import Format
from draftwalk.weights.tensor import RawTensor


@dataclass(frozen=True, eq=False, slots=True)
class PlannedTensor:
    """What a file's header needs to know of a tensor, and how to get its bytes.

    Attributes:
        name: as it will be written.
        shape: rows first; `()` is one value.
        format: how the bytes will be packed.
        make: the tensor; called once a file is written.
    """

    name: str
    shape: tuple[int, ...]
    format: Format
    make: Callable[[], RawTensor]

    @staticmethod
    def of(raw: RawTensor) -> PlannedTensor:
        """A tensor that is there already."""
        return PlannedTensor(raw.name, raw.shape, raw.format, lambda: raw)

    @property
    def bytes(self) -> int:
        """Bytes it will take."""
        return math.prod(self.shape) // self.format.BLOCK * self.format.BYTES

    def named(self, name: str) -> PlannedTensor:
        """The same under another name."""
        return replace(self, name=name)

    def made(self) -> RawTensor:
        """The tensor, as it was planned."""
        raw = self.make()
        assert raw.shape == self.shape, f"{self.name} was planned with another shape"
        assert raw.format is self.format, f"{self.name} was planned in another format"
        assert raw.bytes == self.bytes
        return raw


def planned(tensor: RawTensor | PlannedTensor) -> PlannedTensor:
    """Either kind as a plan."""
    return tensor if isinstance(tensor, PlannedTensor) else PlannedTensor.of(tensor)
