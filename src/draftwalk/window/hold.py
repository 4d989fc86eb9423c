"""Whether a lone text's window is settled in every step, or one is held for some steps.

To settle it takes time: confidence is turned into chances, every window is priced, the outcome is
learned from. Where windows that follow confidence gain less than that, the best constant one is
held, and only a step now and then looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

EVERY = 8  # steps, one of which looks while a window is held
_FIRST = 6  # looks of a text before a window is held
_BELIEVED = 5  # of them, for the text after it
_MORE = 2  # tokens that a look drafts beyond a held window, to know what they would be worth
_RATE = 1 / 16  # of a look in what is believed
_CLEARLY = 1.005  # times as fast a held window is expected to be
_WORTH = 1.05  # the same, beside plain decoding: what hardly pays is looked at in every step
_MISSES = 5  # held steps in a row in which no token stood: what is believed is old
_DOUBTED = 2  # looks that are left of it then
# What is learned from a look later in its step takes about as long as the look.
_WHOLE = 2.0
_SEEN, _DEAREST = 0.1, 2.0  # rate of one look in the mean of what they take, and its most


class LookTime:
    """What looks take.

    Args:
        clock: seconds.

    Attributes:
        seconds: of one, and of what is learned from it; 0 before the first.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = 0.0
        self.seconds = 0.0

    def start(self) -> None:
        """A look begins."""
        self._start = self._clock()

    def stop(self) -> None:
        """It has ended."""
        took = _WHOLE * (self._clock() - self._start)
        known = self.seconds or took
        self.seconds = known + _SEEN * (min(took, _DEAREST * known) - known)


@dataclass(frozen=True, slots=True)
class Look:
    """What a look found.

    Attributes:
        chain: survival of the draft's tokens.
        passes: seconds of a step without its draft, by how many tokens are verified, none first.
        drafts: seconds of drafts, of one token first, as many as a whole one has last.
        reach: tokens that a draft has where windows follow confidence.
        bounds: least and most tokens that the text may have verified.
    """

    chain: Sequence[float]
    passes: Sequence[float]
    drafts: Sequence[float]
    reach: int
    bounds: tuple[int, int]


class Hold:
    """What one text knows of constant windows.

    Args:
        most: tokens of a whole draft.

    Attributes:
        window: the held one; 0 if there is none.
    """

    def __init__(self, most: int) -> None:
        self.window = 0
        # Mean chances that a token was reached and that it stood, over looks that drafted it.
        self._reached, self._stood = [0.0] * most, [0.0] * most
        self._tokens, self._price = 0.0, 0.0  # of a step whose window follows confidence
        self._looks = 0
        self._left = 0
        self._misses = 0

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
    def last(self) -> bool:
        """Whether the next step looks after some that did not."""
        return self.window > 0 and self._left == 0

    @property
    def curious(self) -> int:
        """Tokens that a look should draft to know what more of them would be worth."""
        return self.window + _MORE if self.last else 0

    def drop(self) -> None:
        """Nothing is held any more."""
        self.window = self._left = self._misses = 0

    def outcome(self, accepted: int) -> None:
        """How many tokens stood in a step that took the held window."""
        self._misses = 0 if accepted else self._misses + 1
        if self._misses >= _MISSES:
            self._left = self._misses = 0
            self._looks = min(self._looks, _DOUBTED)

    def tell(self, look: Look, looking: float) -> None:
        """Takes in a look, and settles whether the next steps do without one.

        Args:
            look: what it found.
            looking: seconds that a look takes.
        """
        self._looks += 1
        rate = max(_RATE, 1.0 / self._looks)
        tokens, price = _followed(look)
        self._tokens += rate * (tokens - self._tokens)
        self._price += rate * (price - self._price)
        before = 1.0
        for n, survival in enumerate(look.chain):
            self._reached[n] += rate * (before - self._reached[n])
            self._stood[n] += rate * (survival - self._stood[n])
            before = survival
        self.drop()
        if not looking or self._looks < _FIRST:
            return
        tokens, price, window = self._best(look)
        follows, price = self._tokens / (self._price + looking), price + looking / EVERY
        if tokens > _CLEARLY * follows * price and tokens * look.passes[0] > _WORTH * price:
            self.window, self._left = window, EVERY - 1

    def _best(self, look: Look) -> tuple[float, float, int]:
        """Tokens and price of a step at the best constant window, and that window."""
        gained = survival = chance = 1.0
        least, most = look.bounds
        best = 1.0, look.passes[0], 0
        for n, draft in enumerate(look.drafts[:most]):
            if self._reached[n] > 0.0:  # a token that was never drafted is as the one before it
                chance = self._stood[n] / self._reached[n]
            survival *= chance
            gained += survival
            price = draft + look.passes[n + 1]
            if n + 1 >= least and (not best[2] or gained * best[1] > best[0] * price):
                best = gained, price, n + 1
        return best


def _followed(look: Look) -> tuple[float, float]:
    """Tokens and price of a step whose window follows confidence."""
    least, most = look.bounds
    length = max(min(look.reach, most), 1)
    draft = look.drafts[length - 1]
    gained, tokens, price = 1.0, 1.0, draft + look.passes[0]
    for n, survival in enumerate(look.chain[:length], 1):
        gained += survival
        if n >= least and gained * price > tokens * (draft + look.passes[n]):
            tokens, price = gained, draft + look.passes[n]
    return tokens, price
