"""The one clock: wall time after the device has finished what it was given."""

from __future__ import annotations

import time

import torch


class Clock:
    """Reads time on the host, once the device's queue is empty."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device if device.type == "cuda" else None

    def now(self) -> float:
        """Seconds, for differences."""
        if self._cuda is not None:
            torch.cuda.synchronize(self._cuda)
        return time.perf_counter()
