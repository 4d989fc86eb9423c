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
from draftwalk.window.hold import Hold, Worth
from draftwalk.window.reach import Reach, saves
from draftwalk.window.survival import Offset, Survival
from draftwalk.window.switch import Switch

# Whole drafts that are verified to learn about late positions: how many of all, at first and after
# so many outcomes, the drafter's own among them; as much of them as costs no more than so many
# plain steps.
_EXPLORED_FIRST, _EXPLORED, _OUTCOMES = 0.015, 0.003, 5000
_TOO_DEAR = 3.0
_PLAIN, _SELDOM = 12, 128  # drafting steps between two plain ones, at first and later
_LEARNING, _LOOKED = 2.0, 0.1  # a look takes as long again afterwards; rate of one in its mean


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
    hold: Hold
    switch: Switch | None = None
    history: History | None = None
    offset: Offset = field(default_factory=Offset)
    probing: bool = False
    exploring: bool = False
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
        clock: seconds, to know what choosing takes.
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
        self._clock = clock
        self._looking = 0.0  # seconds
        self._held: _Text | None = None  # the text of this step, if it takes its window unseen
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
        reach, hold = self._reached.following(), self._holding.following()
        text = _Text(temperature, plain, window.n_min, reach, hold)
        if window.auto and self._positions and not plain:
            if sampling.rule == "rejection":
                text.history = History(self._positions)
            else:
                text.switch = self._usual.following()
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
            text = self._texts[slot]
            if room > 0 and text.hold.holds():
                wanted = max(text.hold.window, text.least) if self._shortens else room
                text.asked, self._held = min(room, wanted), text
                return {slot: text.asked}
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
        text.asked, text.verified = 0, 0
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
                wanted = max(text.reach.limit, text.hold.curious, text.least)
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
            return [self._unseen(self._held, len(offer.confidence)) for offer in offers]
        start = self._clock()
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
            found, worth = self._search(asking, chances, len(offers), drafted, beside)
            if certain.rows == certain.anchors:  # else prompts are read, too
                self._look_on(asking, chances, len(offers), beside, worth)
            for n, size in zip(free, found, strict=True):
                sizes[n] = size if size >= offers[n].least else 0
        for size, offer, text in zip(sizes, offers, texts, strict=True):
            text.confidence, text.verified = offer.confidence, size
        if free:
            took = _LEARNING * (self._clock() - start)
            self._looking += _LOOKED * (min(took, 2.0 * self._looking or took) - self._looking)
        return sizes

    def learn(self, slot: int, accepted: int, judged: bool = True) -> None:
        """Takes in what became of a text's draft in this step.

        Args:
            slot: the text's.
            accepted: tokens that stood.
            judged: whether the row behind them could be used.
        """
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
        if self._measured and self._held is None:
            drafted = [text for slot in step.slots if (text := self._texts[slot]).asked]
            resumed = any(text.probing for text in drafted)
            rows = self._drafted_rows([text.asked for text in drafted])
            self.costs.learn(step, rows, usual=not resumed)

    def _unseen(self, text: _Text, drafted: int) -> int:
        """The window of a text that holds one."""
        text.confidence, text.verified = (), 0
        size = min(drafted, max(text.hold.window, text.least))
        return size if size >= text.least else 0

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
    ) -> tuple[list[int], Worth]:
        """The windows, and what a step with the best ones is worth."""
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
        gained = float(certain.anchors)
        for text, chain, window in zip(texts, chains, windows, strict=True):
            more = (paid - prices[0]) * window / sum(windows) if window else 0.0
            more_tokens = sum(chain[:window])
            gained += more_tokens
            assert text.switch is not None, "only texts whose window is free are searched for"
            text.switch.tell(1.0 + more_tokens, 1.0 + (draft / blocks + more) / plain)
            self._usual = text.switch
        dearest = prices[0] + (_TOO_DEAR - 1.0) * plain - draft / blocks
        for n, (text, offer) in enumerate(zip(texts, offers, strict=True)):
            if text.exploring:
                each = costs.place * offer.context
                windows[n] = max(windows[n], _affordable(offer, prices, each, dearest))
            if text.probing and offer.confidence:
                windows[n] = max(windows[n], 1)
        return windows, Worth(gained, paid, plain)

    def _look_on(
        self,
        offers: Sequence[Offer],
        chances: Sequence[Sequence[float]],
        blocks: int,
        certain: Certain,
        worth: Worth,
    ) -> None:
        """Tells now and then how far drafts should have gone, were all of them as long."""
        costs, free = self.costs, len(offers)
        for offer, likely in zip(offers, chances, strict=True):
            reach, hold = self._texts[offer.slot].reach, self._texts[offer.slot].hold
            if not likely or not (hold.resumes or reach.listens()):
                continue
            most, rows = self._positions, certain.rows
            passes = costs.of_passes(range(rows + free, rows + free * most + 1, free))
            drafts = costs.of_drafts(range(2 * blocks, blocks * (most + 1) + 1, blocks))
            around = costs.rest + costs.place * certain.places
            seen = costs.place * free * offer.context
            prices = [
                around + verified + drafted + seen * tokens
                for tokens, (verified, drafted) in enumerate(zip(passes, drafts, strict=True), 1)
            ]
            reach.tell(likely, prices, certain.anchors, free)
            if certain.anchors == 1:
                hold.tell(survivals(likely), prices, worth, self._looking)
            self._reached, self._holding = reach, hold


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
