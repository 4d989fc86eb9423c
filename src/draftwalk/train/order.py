"""Which answers an update learns from: every answer once, in a drawn order, then again.

The data may grow between two runs: what is new joins the part of the order that is still to come.
Answers are known again by the digests of their shards, wherever these stand now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import cast

import torch

from draftwalk.errors import UserError


class DataOrder:
    """An endless order of answers.

    Args:
        seed: draws the order.
        usable: numbers of the answers that may be learned from, ascending.
        shards: digest and count of answers of every shard, in the order of the numbers.
    """

    def __init__(
        self, seed: int, usable: list[int], shards: Sequence[tuple[str, int]] = ()
    ) -> None:
        assert usable, "there is something to learn from"
        self._seed = seed
        self._usable = usable
        self._shards = shards
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
            "shards": [*self._shards],
        }

    def load(self, state: Mapping[str, object]) -> None:
        """Goes on where `state` was taken, with the answers that are new since.

        Raises:
            UserError: some of the answers of then are missing.
        """
        self._drawn = cast(int, state["drawn"])
        self.epoch = cast(int, state["epoch"])
        left = cast(list[int], state["left"])
        before = cast("Sequence[tuple[str, int]]", state.get("shards", ()))
        if before and self._shards:
            now = self._numbers_now(before)
            self._left = [now[number] for number in left]
            known = set(now)
            new = [number for number in self._usable if number not in known]
        else:  # a state from before shards were told: what is new stands behind what was there
            count = cast(int, state["known"])
            if count > len(self._usable):
                raise _missing(f"{count} answers, and there are {len(self._usable)}")
            self._left, new = [*left], self._usable[count:]
        if new:
            self._left = self._shuffled([*self._left, *new])

    def _numbers_now(self, before: Sequence[tuple[str, int]]) -> list[int]:
        """Today's numbers of the answers of then, in their order."""
        ends = accumulate(count for _, count in self._shards)
        places: dict[str, list[range]] = {}  # a folder may be given twice
        for (digest, count), end in zip(self._shards, ends, strict=True):
            places.setdefault(digest, []).append(range(end - count, end))
        now: list[int] = []
        missing = 0
        for digest, _ in before:
            if places.get(digest):
                now += places[digest].pop(0)
            else:
                missing += 1
        if missing:
            raise _missing(f"{len(before)} shards of answers, {missing} of which are missing")
        return now

    def _shuffled(self, numbers: list[int]) -> list[int]:
        generator = torch.Generator().manual_seed(self._seed + self._drawn)
        self._drawn += 1
        return [numbers[n] for n in torch.randperm(len(numbers), generator=generator).tolist()]


def _missing(what: str) -> UserError:
    return UserError(
        f"the run has learned from {what}",
        "give all the answers of before and maybe more, or start another run",
    )
