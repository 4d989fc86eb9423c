"""What something costs by its size: measured, one number for each size that was seen."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

_RATE = 0.02  # of a new measurement in what is known well
_CARE = 3  # costs seen in passing that one measured with care is worth
_FAR = 2.0  # how far later measurements may take a cost from one that was measured with care


class Curve:
    """Costs by size, straight between sizes that are known. Nothing is assumed about its shape."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._costs: dict[int, float] = {}
        self._careful: dict[int, float] = {}
        self._seen: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._costs)

    def __contains__(self, size: int) -> bool:
        return size in self._costs

    def set(self, size: int, cost: float) -> None:
        """A cost that was measured with care."""
        self._know(size, cost, _CARE)
        self._careful[size] = cost

    def move(self, size: int, cost: float) -> None:
        """A cost that was seen in passing."""
        if size not in self._costs:  # half believed: what is near is known
            self._know(size, 0.5 * (cost + self.at(size)) if self._sizes else cost, 1)
            return
        self._seen[size] += 1
        rate = max(_RATE, 1.0 / self._seen[size])
        moved = self._costs[size] + rate * (cost - self._costs[size])
        first = self._careful.get(size)
        if first is not None:
            moved = min(max(moved, first / _FAR), first * _FAR)
        self._costs[size] = moved

    def at(self, size: int) -> float:
        """The cost of a size; beyond what is known, as the upper half of it goes on."""
        known = self._costs.get(size)
        if known is not None:
            return known
        sizes = self._sizes
        assert sizes, "nothing was measured"
        place = bisect_left(sizes, size)
        if place == 0:  # half of a cost is for being there at all
            return self._costs[sizes[0]] * (0.5 + 0.5 * size / sizes[0])
        if place < len(sizes):
            return self._between(sizes[place - 1], sizes[place], size)
        last = sizes[-1]
        middle = sizes[min(bisect_left(sizes, (last + 1) // 2), len(sizes) - 2)] if place > 1 else 0
        if not middle:  # only one size, and the same of it
            return self._costs[last] * (0.5 + 0.5 * size / last)
        return max(self._costs[last], self._between(middle, last, size))

    def through(self, sizes: Iterable[int]) -> list[float]:
        """The costs of several sizes."""
        known = self._costs
        return [known[size] if size in known else self.at(size) for size in sizes]

    def _know(self, size: int, cost: float, seen: int) -> None:
        if size not in self._costs:
            insort(self._sizes, size)
        self._costs[size], self._seen[size] = cost, seen

    def _between(self, low: int, high: int, size: int) -> float:
        slope = (self._costs[high] - self._costs[low]) / (high - low)
        return self._costs[low] + slope * (size - low)
