"""Windows tried on recorded drafts, with costs that are given: no noise of time, no models.

A log is dense: at every place of a text it says how sure the drafter would be of each token of a
draft made there, and how many of them are right. So every policy can be taken through the text.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draftwalk.settings import Sampling, Window
from draftwalk.window import Calibration, Certain, Measured, Offer, Spent, Windows

AUTO = Window(auto=True)


@dataclass(frozen=True)
class Place:
    """A draft that would be made at a place of a text."""

    confidence: tuple[float, ...]
    right: int


Log = Sequence[Place]


@dataclass(frozen=True)
class Prices:
    """Seconds of a pass by its rows, of a draft, and of each token that one has."""

    passes: Callable[[int], float]
    draft: float
    token: float = 0.0

    def drafting(self, tokens: int) -> float:
        """Of a draft; 0 where there is none."""
        return self.draft + self.token * tokens if tokens else 0.0

    def step(self, window: int | None) -> float:
        """Of a step with a window; `None` where nothing is drafted."""
        if window is None:
            return self.passes(1)
        return self.drafting(window) + self.passes(1 + window)


@dataclass
class Ride:
    """How a policy got through a text."""

    seconds: float = 0.0
    tokens: int = 0
    steps: int = 0
    off: int = 0
    windows: int = 0

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def fixed(log: Log, prices: Prices, window: int | None) -> Ride:
    """The same window in every step."""
    ride, at = Ride(), 0
    while at < len(log):
        room = min(window or 0, len(log) - at - 1)
        right = min(log[at].right, room)
        ride.seconds += prices.step(room if window is not None and len(log) - at > 1 else None)
        ride.tokens += right + 1
        ride.steps += 1
        at += right + 1
    return ride


def best_fixed(logs: Sequence[Log], prices: Prices, block: int) -> float:
    """Speed of the best fixed window over all logs together, plain decoding among them."""
    speeds = []
    for window in (None, *range(1, block)):
        rides = [fixed(log, prices, window) for log in logs]
        speeds.append(sum(r.tokens for r in rides) / sum(r.seconds for r in rides))
    return max(speeds)


class Watch:
    """A clock that only choosing moves.

    Args:
        look: seconds that it takes to settle a window and to learn from it.
    """

    def __init__(self, look: float = 0.0) -> None:
        self.time = 0.0
        self._look = look

    def __call__(self) -> float:
        self.time += 0.5 * self._look  # it is read before and after
        return self.time


def new_windows(
    prices: Prices, block: int, prior: Calibration | None = None, watch: Watch | None = None
) -> Windows:
    """Windows that know what passes cost."""
    known, shortens = prior or Calibration.usual(block - 1), prices.token > 0.0
    windows = Windows(known, shortens, watch or Watch())
    windows.measured(Measured({rows: prices.passes(rows) for rows in range(1, block + 1)}))
    return windows


def ride(
    windows: Windows,
    log: Log,
    prices: Prices,
    sampling: Sampling | None = None,
    watch: Watch | None = None,
) -> Ride:
    """A text with the window chosen in every step; `watch` is the windows' own, if it costs."""
    sampling, watch = sampling or Sampling(), watch or Watch()
    windows.begin(0, AUTO, sampling)
    done, at = Ride(), 0
    while at < len(log):
        place, before = log[at], watch.time
        room = min(len(place.confidence), len(log) - at - 1)
        limit = windows.limits({0: room})[0]
        size = 0
        if limit:
            offer = Offer(0, place.confidence[:limit], at)
            (size,) = windows.choose([offer], Certain(1, 1, at))
        right = min(place.right, size)
        windows.learn(0, right)
        verify, draft = prices.passes(1 + size), prices.drafting(limit)
        windows.spent(Spent((0,), 1 + size, (1 + size) * at, False, draft, verify, 0.0))
        done.seconds += draft + verify + watch.time - before
        done.tokens += right + 1
        done.steps += 1
        done.off += not limit
        done.windows += size
        at += right + 1
    windows.end(0)
    return done


def regimes(
    length: int,
    run: int,
    block: int,
    seed: int,
    knows: float = 1.0,
    rates: Sequence[float] = (0.96, 0.45),
) -> Log:
    """A text of passages, some easy and some hard.

    Args:
        length: places.
        run: mean length of a passage.
        block: rows of a block.
        seed: which text.
        knows: how well the drafter's confidence tells right tokens: 1 is calibrated to the
            passage, 0 is the same for all, with noise on top.
        rates: how often tokens of the passages are right.
    """
    draw = random.Random(seed)
    rate, rated, right = rates[0], [], []
    for _ in range(length + block):
        if draw.random() < 1.0 / run:
            rate = draw.choice(rates)
        rated.append(rate)
        right.append(draw.random() < rate)
    mean = sum(math.log(r / (1 - r)) for r in rates) / len(rates)
    places = []
    for at in range(length):
        confidence = []
        for n in range(1, block):
            logit = math.log(rated[at + n] / (1 - rated[at + n]))
            sure = mean + knows * (logit - mean) + draw.gauss(0.0, 0.3)
            confidence.append(1.0 / (1.0 + math.exp(-1.5 * sure - 0.5)))  # too sure
        stood = 0
        while stood < block - 1 and right[at + 1 + stood]:
            stood += 1
        places.append(Place(tuple(confidence), stood))
    return places
