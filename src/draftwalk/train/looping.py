"""Texts that go round in circles: small models fall into loops, which are no text to learn from.

Inside a loop every drafter looks good, so answers that loop are also measured apart.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

GRAM = 8  # tokens
MOST = 4  # times a run of that many tokens may occur


class LoopWatch:
    """Watches a text grow.

    Attributes:
        start: where its loop begins, once one is seen: the place after the first repetition of the
            run that came too often. `None` until then.
    """

    def __init__(self, gram: int = GRAM, most: int = MOST) -> None:
        self.start: int | None = None
        self._most = most
        self._last: deque[int] = deque(maxlen=gram)
        self._seen: Counter[tuple[int, ...]] = Counter()
        self._second: dict[tuple[int, ...], int] = {}
        self._length = 0

    def push(self, tokens: Iterable[int]) -> bool:
        """Takes tokens; whether the text has looped."""
        for token in tokens:
            self._length += 1
            self._last.append(token)
            if len(self._last) < (self._last.maxlen or 0):
                continue
            run = tuple(self._last)
            self._seen[run] += 1
            if self._seen[run] == 2:
                self._second[run] = self._length
            if self._seen[run] > self._most and self.start is None:
                self.start = self._second[run]
        return self.start is not None


def loop_start(tokens: Iterable[int]) -> int | None:
    """Where a text begins to loop, or `None`."""
    watch = LoopWatch()
    watch.push(tokens)
    return watch.start
