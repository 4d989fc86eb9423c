"""Which texts draft in a step, and how many of their drafted tokens are verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from draftwalk.settings import Sampling, Window
from draftwalk.window.calibration import Calibration
from draftwalk.window.choice import best_windows, survivals
from draftwalk.window.costs import Costs, Measured, Spent
from draftwalk.window.history import History
from draftwalk.window.hold import Hold, Look, LookTime
from draftwalk.window.reach import Reach, saves
from draftwalk.window.survival import Offset, Survival
from draftwalk.window.switch import Switch

# Whole drafts that are verified to learn about late positions: how many of all, at first and after
# so many outcomes, the drafter's own among them; as much of them as costs no more than so many
# plain steps.
_EXPLORED_FIRST, _EXPLORED, _OUTCOMES = 0.015, 0.003, 5000
_TOO_DEAR = 3.0
_PLAIN, _SELDOM = 12, 128  # drafts looked at between two plain steps, at first and later


@dataclass(frozen=True, slots=True)
class Offer:
    """A draft that may be verified.

    Attributes:
        slot: the text's.
        confidence: of each token that can be.
        context: places before the anchor.
        least: fewer tokens are not verified at all.
    """

    slot: int
    confidence: tuple[float, ...]
    context: int
    least: int = 0


@dataclass(frozen=True, slots=True)
class Certain:
    """What is in a step's pass whatever windows are.

    Attributes:
        rows: anchors, and rows of prompts.
        anchors: texts that gain a token in any case.
        places: that the anchors see, all together.
    """

    rows: int
    anchors: int
    places: int


@dataclass(slots=True)
class _Text:
    """What is known of a text; without switch and history its window is fixed."""

    temperature: float
    plain: bool
    least: int
    reach: Reach
    switch: Switch | None = None
    hold: Hold | None = None
    history: History | None = None
    offset: Offset = field(default_factory=Offset)
    probing: bool = False
    exploring: bool = False
    room: int = 0
    asked: int = 0
    confidence: tuple[float, ...] = ()
    verified: int = 0

    @property
    def idle(self) -> bool:
        """Whether it drafts seldom or never."""
        switch = self.history or self.switch
        return self.plain or (switch is not None and not switch.on)


class Windows:
    """The windows of all texts of a loop; what one text teaches about costs and drafts serves all.

    Windows never change a text under the coupled rule, so they may depend on anything, times among
    it. Under the rejection rule see `History`.

    Args:
        prior: how confidence and acceptance belong together, as far as the drafter says.
        shortens: whether a draft of fewer tokens costs less.
        clock: seconds, to know what looking at a draft takes.
    """

    def __init__(
        self,
        prior: Calibration,
        shortens: bool = False,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.survival = Survival(prior)
        self.costs = Costs()
        self._known = prior.labels  # outcomes behind the drafter's own calibration
        self._positions = len(prior.bias)
        self._shortens = shortens
        self._looking = LookTime(clock)
        self._held: Hold | None = None  # of this step's text, if it takes its window unseen
        self._texts: dict[int, _Text] = {}
        # How the latest text goes on.
        self._usual, self._reached = Switch(), Reach(self._positions)
        self._holding = Hold(self._positions)
        self._explore = 0.0
        self._plain = self._until_plain = _PLAIN
        self._measured = False

    def begin(self, slot: int, window: Window, sampling: Sampling) -> None:
        """A text starts in a slot."""
        plain = self._positions > 0 and window.n_max == 0
        temperature = 0.0 if sampling.greedy else sampling.temperature
        text = _Text(temperature, plain, window.n_min, self._reached.following())
        if window.auto and self._positions and not plain:
            if sampling.rule == "rejection":
                text.history = History(self._positions)
            else:
                text.switch = self._usual.following()
                if not window.p_min:  # which cuts drafts by what only a look sees
                    text.hold = self._holding.following()
        self._texts[slot] = text

    def end(self, slot: int) -> None:
        """A slot is free again."""
        del self._texts[slot]

    @property
    def wants_measures(self) -> bool:
        """Whether costs matter that nobody has measured yet."""
        return not self._measured and any(text.switch for text in self._texts.values())

    def measured(self, found: Measured) -> None:
        """Takes in the costs of passes."""
        self._measured = True
        self.costs = Costs.of(found)

    def idle(self, slots: Iterable[int]) -> set[int]:
        """Those that draft so seldom that what their drafts need can wait."""
        return {slot for slot in slots if self._texts[slot].idle}

    def limits(self, rooms: Mapping[int, int]) -> dict[int, int]:
        """How many tokens to draft for each text in this step, of at most its room; asked once.

        All blocks of a pass are as long as the longest, so whoever is free drafts as much.
        """
        self._held = None
        if len(rooms) == 1:
            ((slot, room),) = rooms.items()
            if room > 0 and (length := self._unseen(self._texts[slot], room)):
                return {slot: length}
        else:
            for slot in rooms:
                if (hold := self._texts[slot].hold) is not None:
                    hold.drop()
        asked = {slot: self.limit(slot, room) for slot, room in rooms.items()}
        drafting = [limit for limit in asked.values() if limit]
        free = [slot for slot in asked if asked[slot] and self._texts[slot].switch is not None]
        if len(free) == len(drafting) and self._compares(free):
            for slot in free:
                asked[slot] = self._texts[slot].asked = 0
            return asked
        if not self._shortens or not free:
            return asked
        longest, whole = max(drafting), max(rooms[slot] for slot in free)
        if longest < whole and not saves(self.costs, len(drafting), longest, whole):
            longest = whole
        for slot in free:
            asked[slot] = self._texts[slot].asked = min(rooms[slot], longest)
        return asked

    def limit(self, slot: int, room: int) -> int:
        """What one text would draft by itself."""
        text = self._texts[slot]
        text.room, text.asked, text.verified = room, 0, 0
        if room <= 0 or text.plain:
            return 0
        if text.history is not None:
            text.asked = text.history.limit(room)
        elif text.switch is None:
            text.asked = room
        else:
            text.offset.pass_on()
            text.probing = not text.switch.on
            if text.switch.asks():
                text.exploring = self._explores()
                whole = text.exploring or not self._shortens
                curious = 0 if text.hold is None else text.hold.curious
                wanted = max(text.reach.limit, text.least, curious)
                text.asked = room if whole else min(room, wanted)
        return text.asked

    def asked(self, slot: int) -> int:
        """How many tokens of a draft were asked for in this step."""
        return self._texts[slot].asked

    def choose(self, offers: Sequence[Offer], certain: Certain) -> list[int]:
        """How many tokens of each draft are verified.

        Args:
            offers: the drafts of this step.
            certain: what else the step has.
        """
        if self._held is not None:
            sizes = [min(self._held.window, len(offer.confidence)) for offer in offers]
            return [s if s >= offer.least else 0 for s, offer in zip(sizes, offers, strict=True)]
        self._looking.start()
        sizes = [len(offer.confidence) for offer in offers]
        texts = [self._texts[offer.slot] for offer in offers]
        free = [n for n, text in enumerate(texts) if text.switch is not None]
        if free:
            asking, beside = offers, certain
            if len(free) < len(offers):
                asking = [offers[n] for n in free]
                beside = _beside(certain, [o for n, o in enumerate(offers) if n not in free])
            drafted = self._drafted_rows([text.asked for text in texts])
            chances = [self._chances(offer) for offer in asking]
            found = self._search(asking, chances, len(offers), drafted, beside)
            if certain.rows == certain.anchors:  # else prompts are read, too
                self._settle(asking, chances, len(offers), beside)
            for n, size in zip(free, found, strict=True):
                sizes[n] = size if size >= offers[n].least else 0
        for size, offer, text in zip(sizes, offers, texts, strict=True):
            text.confidence, text.verified = offer.confidence, size
        if free and certain.anchors == 1:
            self._looking.stop()
        return sizes

    def learn(self, slot: int, accepted: int, judged: bool = True) -> None:
        """Takes in what became of a text's draft in this step.

        Args:
            slot: the text's.
            accepted: tokens that stood.
            judged: whether the row behind them could be used.
        """
        if self._held is not None:
            self._held.outcome(accepted)
            return
        text = self._texts[slot]
        verified = text.verified if judged else min(text.verified, accepted)
        if not verified:
            return
        if text.history is not None:
            text.history.learn(verified, accepted)
        elif text.switch is not None:
            self.survival.learn(text.confidence, text.temperature, text.offset, verified, accepted)

    def spent(self, step: Spent) -> None:
        """Takes in what the step took; it ends with that."""
        if self._measured and (self._held is None or self._held.last):
            drafted = [text for slot in step.slots if (text := self._texts[slot]).asked]
            resumed = any(text.probing for text in drafted)
            rows = self._drafted_rows([text.asked for text in drafted])
            self.costs.learn(step, rows, usual=not resumed)

    def _unseen(self, text: _Text, room: int) -> int:
        """Tokens to draft for a text that holds a window in this step; 0 if it holds none."""
        hold = text.hold
        if hold is None or not hold.holds():
            return 0
        self._held, text.probing = hold, False
        text.asked = min(room, hold.window) if self._shortens else room
        return text.asked

    def _drafted_rows(self, asked: Sequence[int]) -> int:
        """Rows of a pass that drafts so many tokens for each text; all its blocks are alike."""
        longest = self._positions if not self._shortens else max(asked, default=0)
        return len(asked) * (longest + 1)

    def _compares(self, slots: Sequence[int]) -> bool:
        """Whether a step is plain although drafts are made: what they are compared with moves, too.

        Else only the sizes of drafting steps would be seen, and the machine's speed would hide
        what is wrong with the ratio.
        """
        self._until_plain -= any(not self._texts[slot].idle for slot in slots)
        if self._until_plain > 0:
            return False
        self._plain = self._until_plain = min(2 * self._plain, _SELDOM)
        return True

    def _explores(self) -> bool:
        """Whether it is a text's turn to have as much verified as is not too dear.

        Late positions would else be seen only where the drafter is sure.
        """
        done = (self._known + self.survival.labels) / _OUTCOMES
        self._explore += max(_EXPLORED, _EXPLORED_FIRST * (1.0 - done))
        if self._explore < 1.0:
            return False
        self._explore -= 1.0
        return True

    def _chances(self, offer: Offer) -> list[float]:
        text = self._texts[offer.slot]
        return self.survival.chances(offer.confidence, text.temperature, text.offset)

    def _search(
        self,
        offers: Sequence[Offer],
        chances: Sequence[Sequence[float]],
        blocks: int,
        drafted: int,
        certain: Certain,
    ) -> list[int]:
        texts = [self._texts[offer.slot] for offer in offers]
        chains = [survivals(one) for one in chances]
        costs, draft = self.costs, self.costs.of_draft(drafted)
        around = draft + costs.rest + costs.place * certain.places
        last = certain.rows + sum(map(len, chains))
        prices = [around + one for one in costs.of_passes(range(certain.rows, last + 1))]
        contexts = [offer.context for offer in offers]
        windows, paid = best_windows(
            chains, contexts, certain.rows, certain.anchors, prices, costs.place
        )
        plain = (costs.of_pass(certain.anchors, certain.places) + costs.rest) / certain.anchors
        for text, chain, window in zip(texts, chains, windows, strict=True):
            more = (paid - prices[0]) * window / sum(windows) if window else 0.0
            assert text.switch is not None, "only texts whose window is free are searched for"
            text.switch.tell(1.0 + sum(chain[:window]), 1.0 + (draft / blocks + more) / plain)
            self._usual = text.switch
        dearest = prices[0] + (_TOO_DEAR - 1.0) * plain - draft / blocks
        for n, (text, offer) in enumerate(zip(texts, offers, strict=True)):
            if text.exploring:
                each = costs.place * offer.context
                windows[n] = max(windows[n], _affordable(offer, prices, each, dearest))
            if text.probing and offer.confidence:
                windows[n] = max(windows[n], 1)
        return windows

    def _settle(
        self,
        offers: Sequence[Offer],
        chances: Sequence[Sequence[float]],
        blocks: int,
        certain: Certain,
    ) -> None:
        """Settles how far later drafts go, and whether a lone text looks at them."""
        costs, free, most = self.costs, len(offers), self._positions
        for offer, likely in zip(offers, chances, strict=True):
            text = self._texts[offer.slot]
            reach, hold = text.reach, text.hold
            listens = reach.listens()
            if not likely or not (listens or (hold is not None and hold.last)):
                continue
            seen = costs.place * free * offer.context
            around = costs.rest + costs.place * certain.places
            rows = range(certain.rows, certain.rows + free * most + 1, free)
            passes = [around + one + seen * n for n, one in enumerate(costs.of_passes(rows))]
            sizes = range(2 * blocks, blocks * (most + 1) + 1, blocks)
            drafts = costs.of_drafts(sizes if self._shortens else [sizes[-1]] * most)
            if self._shortens:
                prices = [one + draft for one, draft in zip(passes[1:], drafts, strict=True)]
                reach.tell(likely, prices, certain.anchors, free)
                self._reached = reach
            if hold is None or certain.anchors > 1:
                continue
            if text.switch is not None and text.switch.on:
                length = max(reach.limit, text.least) if self._shortens else most
                look = Look(survivals(likely), passes, drafts, length, (text.least, text.room))
                hold.tell(look, self._looking.seconds / costs.slowness)
                self._holding = hold
            else:
                hold.drop()


def _beside(certain: Certain, fixed: Sequence[Offer]) -> Certain:
    """What is certain where some drafts are verified to their ends."""
    rows = sum(len(offer.confidence) for offer in fixed)
    places = sum(len(offer.confidence) * offer.context for offer in fixed)
    return Certain(certain.rows + rows, certain.anchors, certain.places + places)


def _affordable(offer: Offer, prices: Sequence[float], each: float, dearest: float) -> int:
    """As many tokens of a draft as cost no more than `dearest`; `each` for what it sees."""
    window = len(offer.confidence)
    while window and prices[window] + each * window > dearest:
        window -= 1
    return window
