"""Windows that jump about: whatever a policy may do, this does it within a few steps."""

import random
from collections.abc import Iterable, Sequence

from draftwalk.settings import Sampling, Window
from draftwalk.window import Calibration, Certain, Offer, Spent, Windows


class RestlessWindows(Windows):
    """Drafts or not, verifies any number of tokens, lets features wait: all by chance.

    Args:
        positions: tokens of a whole draft.
        seed: of the chances.
    """

    def __init__(self, positions: int, seed: int) -> None:
        super().__init__(Calibration.usual(positions))
        self._draw = random.Random(seed)
        self._asked: dict[int, int] = {}
        self._drafting = 0.5

    wants_measures = False

    def begin(self, slot: int, window: Window, sampling: Sampling) -> None:
        super().begin(slot, Window(window.n_max), sampling)

    def limit(self, slot: int, room: int) -> int:
        if self._draw.random() < 0.2:
            self._drafting = self._draw.choice((0.1, 0.9))
        drafts = self._draw.random() < self._drafting
        self._asked[slot] = self._draw.randint(1, room) if room > 0 and drafts else 0
        return self._asked[slot]

    def asked(self, slot: int) -> int:
        return self._asked[slot]

    def choose(self, offers: Sequence[Offer], certain: Certain) -> list[int]:
        assert 0 <= certain.anchors <= certain.rows
        return [self._draw.randint(0, len(offer.confidence)) for offer in offers]

    def idle(self, slots: Iterable[int]) -> set[int]:
        return {slot for slot in slots if self._draw.random() < 0.7}

    def learn(self, slot: int, accepted: int, judged: bool = True) -> None:
        assert accepted >= 0

    def spent(self, step: Spent) -> None:
        assert step.rows > 0
