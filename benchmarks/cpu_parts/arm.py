"""What every engine that is compared can do: one model loaded, one text in its memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]


class Arm(Protocol):
    """An engine; times are seconds by the engine's own clock, so that messages cost nothing."""

    def load(self, path: Path, threads: int, context: int) -> float:
        """Loads a GGUF file and prepares a context; returns the time it took."""

    def read(self, ids: Sequence[int]) -> None:
        """Forgets everything and reads a text; `passes` and `decode` come after it."""

    def passes(self, ids: Sequence[int], count: int) -> list[float]:
        """Times of equal passes, logits for all rows, each of them taken back."""

    def decode(self, first: int, tokens: int) -> float:
        """Time of greedy decoding from token `first` on, each token fed back; taken back after."""

    def prefill(self, ids: Sequence[int]) -> float:
        """Forgets everything, reads a text with logits for its last token; returns the time."""

    def logits(self, ids: Sequence[int]) -> Logits:
        """Logits [n, V] of the next rows of the text, which stay in memory."""

    def kv_bytes(self) -> int | None:
        """Memory set aside for K/V; None where the engine does not tell."""
