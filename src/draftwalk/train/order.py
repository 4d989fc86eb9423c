"""Which answers an update learns from: every answer once, in a drawn order, then again.

The data may grow between two runs: what is new joins the part of the order that is still to come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch


class DataOrder:
    """An endless order of answers.

    Args:
        seed: draws the order.
        usable: numbers of the answers that may be learned from, ascending.
    """

    def __init__(self, seed: int, usable: list[int]) -> None:
        assert usable, "there is something to learn from"
        self._seed = seed
        self._usable = usable
        self._known = len(usable)
        self._drawn = 0  # how often an order was drawn
        self.epoch = 0
        self._left: list[int] = []

    def take(self, count: int) -> list[int]:
        """The next answers."""
        taken: list[int] = []
        while len(taken) < count:
            if not self._left:
                self._left = self._shuffled(self._usable)
                self.epoch += 1
            more = count - len(taken)
            taken += self._left[:more]
            self._left = self._left[more:]
        return taken

    def state(self) -> dict[str, object]:
        """What a resumed run needs."""
        return {
            "known": self._known,
            "drawn": self._drawn,
            "epoch": self.epoch,
            "left": self._left,
        }

    def load(self, state: Mapping[str, object]) -> None:
        """Goes on where `state` was taken, with the answers that are new since."""
        self._drawn = cast(int, state["drawn"])
        self.epoch = cast(int, state["epoch"])
        self._left = list(cast(list[int], state["left"]))
        new = self._usable[cast(int, state["known"]) :]
        if new:
            self._left = self._shuffled([*self._left, *new])

    def _shuffled(self, numbers: list[int]) -> list[int]:
        generator = torch.Generator().manual_seed(self._seed + self._drawn)
        self._drawn += 1
        return [numbers[n] for n in torch.randperm(len(numbers), generator=generator).tolist()]
