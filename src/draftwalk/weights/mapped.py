"""Mapped files: bytes that the system reads on demand, and may drop again."""

from __future__ import annotations

import mmap
import sys
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, slots=True)
class MappedFile:
    """A whole file, read-only.

    Attributes:
        memory: the mapping.
        data: its bytes.
    """

    memory: mmap.mmap
    data: NDArray[np.uint8]

    @staticmethod
    def of(file: BinaryIO) -> MappedFile:
        """Maps an open file that is not empty.

        Raises:
            OSError: it cannot be mapped.
        """
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return MappedFile(memory, np.frombuffer(memory, np.uint8))

    def forget(self, part: NDArray[np.uint8]) -> None:
        """Lets the system drop the pages that lie within `part`; they can be read again."""
        if sys.platform == "win32":
            return
        first = part.ctypes.data - self.data.ctypes.data
        start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
        stop = (first + part.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if start < stop:
            self.memory.madvise(mmap.MADV_DONTNEED, start, stop - start)
