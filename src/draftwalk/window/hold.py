"""Whether a lone text's window is settled in every step, or one is held for some steps.

To settle it takes time: confidence is turned into chances, every window is priced, the outcome is
learned from. Where windows that follow confidence gain less than that, the best constant one is
held, and only a step now and then looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EVERY = 8  # steps, one of which looks while a window is held
_FIRST = 6  # looks of a text before a window is held
_BELIEVED = 5  # of them, for the text after it
_MORE = 2
_RATE = 1 / 16  # of a look in what is believed
_CLEARLY = 1.005  # faster, by what is expected
_WORTH = 1.05  # times plain decoding; below that, every step is looked at


@dataclass(frozen=True, slots=True)
class Worth:
    """What a step with the best windows is worth.

    Attributes:
        tokens: expected.
        price: seconds.
        plain: seconds of a step without a draft.
    """

    tokens: float
    price: float
    plain: float


class Hold:
    """What one text knows of constant windows.

    Args:
        most: tokens of a whole draft.
    """

    def __init__(self, most: int) -> None:
        self.window = 0  # held; 0 is none
        # Mean chances that a token was reached and that it stood, over looks that drafted it.
        self._reached, self._stood = [0.0] * most, [0.0] * most
        self._tokens, self._price = 0.0, 0.0  # of a step whose window follows confidence
        self._looks = 0
        self._left = 0

    def following(self) -> Hold:
        """One for a new text, which begins as this one goes on."""
        new = Hold(len(self._stood))
        new._reached, new._stood = list(self._reached), list(self._stood)
        new._tokens, new._price = self._tokens, self._price
        new._looks = min(self._looks, _BELIEVED)
        return new

    def holds(self) -> bool:
        """Whether this step takes `window` without a look; asked once a step."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    @property
    def resumes(self) -> bool:
        """Whether a window was held until now."""
        return self.window > 0 and self._left == 0

    @property
    def curious(self) -> int:
        """Tokens that a look should draft to know what more of them would be worth."""
        return self.window + _MORE if self.resumes else 0

    def tell(
        self,
        chain: Sequence[float],
        prices: Sequence[float],
        worth: Worth,
        looking: float,
    ) -> None:
        """What a look found.

        Args:
            chain: survival of the draft's tokens.
            prices: seconds of a step that drafts and verifies so many tokens, one first.
            worth: of the step with the window that was chosen.
            looking: seconds that a look takes.
        """
        self._looks += 1
        rate = max(_RATE, 1.0 / self._looks)
        self._tokens += rate * (worth.tokens - self._tokens)
        self._price += rate * (worth.price - self._price)
        before = 1.0
        for n, survival in enumerate(chain):
            self._reached[n] += rate * (before - self._reached[n])
            self._stood[n] += rate * (survival - self._stood[n])
            before = survival
        self.window = 0
        if not looking or self._looks < _FIRST:
            return
        tokens, window = self._best(prices)
        price = prices[window - 1] + looking / EVERY
        follows = self._tokens / (self._price + looking)
        if tokens > _CLEARLY * follows * price and tokens * worth.plain > _WORTH * price:
            self.window, self._left = window, EVERY - 1

    def _best(self, prices: Sequence[float]) -> tuple[float, int]:
        """Tokens of a step at the best constant window, and that window."""
        gained = survival = chance = 1.0
        tokens, window, best = 1.0, 1, 0.0
        for n, price in enumerate(prices):
            if self._reached[n] > 0.0:  # a token that was never drafted is as the one before it
                chance = self._stood[n] / self._reached[n]
            survival *= chance
            gained += survival
            if gained > best * price:
                tokens, window, best = gained, n + 1, gained / price
        return tokens, window
