"""Whether a text drafts at all: off where plain decoding is expected to be faster.

While it is off, a step now and then still drafts and says what drafting would be worth.
"""

from __future__ import annotations

_LOSS = 0.98  # speed-up under which drafting is given up
_PATIENCE = 8  # looks in a row
_TRIAL, _TRIED = 3, 16  # the same just after it was taken up again, and how long that lasts
_MEMORY, _PROBED = 1 / 16, 1 / 8  # how much one step says about the speed-up, and one probe
_SHORTEST, _LONGEST = 2, 64  # steps between two probes
_FIRST = 16  # longest wait for the first probe of a new text


class Switch:
    """On or off, for one text.

    Args:
        on: how it begins.
        interval: steps to the first probe, if it is off.
    """

    def __init__(self, on: bool = True, interval: int = _SHORTEST) -> None:
        self.on = on
        self._interval = self._left = interval
        self._tokens, self._price, self._told = 0.0, 0.0, 0
        self._below = 0
        self._trial = 0

    def following(self) -> Switch:
        """One for a new text, which begins as this one goes on."""
        return Switch(self.on, min(self._interval, _FIRST))

    def asks(self) -> bool:
        """Whether this step drafts."""
        if self.on:
            return True
        self._left -= 1
        return self._left <= 0

    def tell(self, tokens: float, price: float) -> None:
        """What a step that drafts is expected to be worth.

        Args:
            tokens: the text gains by it.
            price: of the step, in plain steps.
        """
        self._told += 1
        rate = max(_MEMORY if self.on else _PROBED, 1.0 / self._told)
        self._tokens += rate * (tokens - self._tokens)
        self._price += rate * (price - self._price)
        pays = tokens > price
        if self.on:
            self._below = self._below + 1 if self._tokens < _LOSS * self._price else 0
            self._trial -= 1
            if self._below >= (_TRIAL if self._trial > 0 else _PATIENCE):
                self.on = False
                self._wait(_SHORTEST)
        elif pays and self._tokens > self._price and self._told > 1:
            self.on, self._below, self._trial = True, 0, _TRIED
            self._told = 0
        else:
            self._wait(_SHORTEST if pays else min(2 * self._interval, _LONGEST))

    def _wait(self, steps: int) -> None:
        self._interval = self._left = steps
