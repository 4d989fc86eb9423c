"""Which texts draft in a step, and how many of their drafted tokens are verified."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from draftwalk.settings import Sampling, Window
from draftwalk.window.calibration import Calibration
from draftwalk.window.choice import Price, best_windows, survivals
from draftwalk.window.costs import Costs, Measured, Spent
from draftwalk.window.history import History
from draftwalk.window.reach import Reach
from draftwalk.window.survival import Offset, Survival
from draftwalk.window.switch import Switch

# Whole drafts that are verified to learn about late positions: how many of all, at first and after
# so many outcomes; as much of them as costs no more than so many plain steps.
_EXPLORED_FIRST, _EXPLORED, _OUTCOMES = 0.015, 0.003, 5000
_TOO_DEAR = 3.0
_NOTICEABLE = 0.02  # of a plain step


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
    reach: Reach
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
    """

    def __init__(self, prior: Calibration, shortens: bool = False) -> None:
        self.survival = Survival(prior)
        self.costs = Costs()
        self._positions = len(prior.bias)
        self._shortens = shortens
        self._texts: dict[int, _Text] = {}
        # How the latest text goes on.
        self._usual, self._reached = Switch(), Reach(self._positions)
        self._explore = 0.0
        self._measured = False

    def begin(self, slot: int, window: Window, sampling: Sampling) -> None:
        """A text starts in a slot."""
        plain = self._positions > 0 and window.n_max == 0
        temperature = 0.0 if sampling.greedy else sampling.temperature
        text = _Text(temperature, plain, self._reached.following())
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

    def limit(self, slot: int, room: int) -> int:
        """How many tokens to draft in this step, of at most `room`; asked once a step."""
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
            text.asked = self._worth_drafting(text, room) if text.switch.asks() else 0
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
        sizes = [len(offer.confidence) for offer in offers]
        free = [n for n, offer in enumerate(offers) if self._texts[offer.slot].switch is not None]
        if free:
            fixed = [n for n in range(len(offers)) if self._texts[offers[n].slot].switch is None]
            rows = certain.rows + sum(sizes[n] for n in fixed)
            places = certain.places + sum(sizes[n] * offers[n].context for n in fixed)
            beside = Certain(rows, certain.anchors, places)
            drafted = self._drafted_rows([self._texts[offer.slot].asked for offer in offers])
            found = self._search([offers[n] for n in free], len(offers), drafted, beside)
            for n, size in zip(free, found, strict=True):
                sizes[n] = size if size >= offers[n].least else 0
        for size, offer in zip(sizes, offers, strict=True):
            text = self._texts[offer.slot]
            text.confidence, text.verified = offer.confidence, size
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
        if self._measured:
            drafted = [text for slot in step.slots if (text := self._texts[slot]).asked]
            resumed = any(text.probing for text in drafted)
            rows = self._drafted_rows([text.asked for text in drafted])
            self.costs.learn(step, rows, usual=not resumed)

    def _drafted_rows(self, asked: Sequence[int]) -> int:
        """Rows of a pass that drafts so many tokens for each text; all its blocks are alike."""
        longest = self._positions if not self._shortens else max(asked, default=0)
        return len(asked) * (longest + 1)

    def _worth_drafting(self, text: _Text, room: int) -> int:
        """How many tokens of a draft to ask for: less than `room` if that saves something.

        Now and then it is all of it: late positions would else be seen only where the drafter is
        sure.
        """
        done = self.survival.labels / _OUTCOMES
        self._explore += max(_EXPLORED, _EXPLORED_FIRST * (1.0 - done))
        text.exploring = self._explore >= 1.0
        if text.exploring:
            self._explore -= 1.0
        short = min(room, text.reach.limit)
        if text.exploring or not self._shortens or not self._saves(short, room):
            return room
        return short

    def _saves(self, short: int, room: int) -> bool:
        """Whether drafting `short` tokens costs noticeably less, as far as is known."""
        drafts = self.costs.drafts
        if room + 1 not in drafts:
            return False
        if short + 1 not in drafts:
            return True
        saved = drafts.at(room + 1) - drafts.at(short + 1)
        return saved > _NOTICEABLE * self.costs.of_pass(1, 0)

    def _search(
        self, offers: Sequence[Offer], blocks: int, drafted: int, certain: Certain
    ) -> list[int]:
        texts = [self._texts[offer.slot] for offer in offers]
        chains = [
            survivals(self.survival.chances(offer.confidence, text.temperature, text.offset))
            for offer, text in zip(offers, texts, strict=True)
        ]
        costs, draft = self.costs, self.costs.of_draft(drafted)
        of_pass, besides = costs.of_pass, draft + costs.rest

        def price(rows: int, places: int) -> float:
            return besides + of_pass(certain.rows + rows, certain.places + places)

        contexts = [offer.context for offer in offers]
        windows, paid = best_windows(chains, contexts, certain.rows, certain.anchors, price)
        least = price(0, 0)
        plain = (costs.of_pass(certain.anchors, certain.places) + costs.rest) / certain.anchors
        for text, chain, window in zip(texts, chains, windows, strict=True):
            share = draft / blocks + ((paid - least) * window / sum(windows) if window else 0.0)
            assert text.switch is not None, "only texts whose window is free are searched for"
            text.switch.tell(1.0 + sum(chain[:window]), 1.0 + share / plain)
            self._usual = text.switch
        if self._shortens:
            self._reach_of(texts, offers, certain)
        dearest = least + (_TOO_DEAR - 1.0) * plain - draft / blocks
        return [
            min(
                len(offer.confidence),
                max(
                    window,
                    _affordable(offer, price, dearest) if text.exploring else 0,
                    int(text.probing),
                ),
            )
            for text, offer, window in zip(texts, offers, windows, strict=True)
        ]

    def _reach_of(self, texts: Sequence[_Text], offers: Sequence[Offer], certain: Certain) -> None:
        """Tells how far drafts should have gone, were all of them as long.

        Behind a draft's end every token is taken to be as likely to stand as its last one.
        """
        costs, blocks = self.costs, len(offers)
        for text, offer in zip(texts, offers, strict=True):
            chances = self.survival.chances(offer.confidence, text.temperature, text.offset)
            chances += [chances[-1]] * (self._positions - len(chances))

            def price(rows: int, places: int, offer: Offer = offer) -> float:
                verified = costs.of_pass(certain.rows + blocks * rows, certain.places + places)
                return costs.of_draft(blocks * (rows + 1)) + verified + costs.rest

            chain = [blocks * chance for chance in survivals(chances)]
            places = [blocks * offer.context]
            (worth,), _ = best_windows([chain], places, certain.rows, certain.anchors, price)
            text.reach.tell(worth)
            self._reached = text.reach


def _affordable(offer: Offer, price: Price, dearest: float) -> int:
    """As many tokens of a draft as cost no more than `dearest`."""
    window = len(offer.confidence)
    while window and price(window, window * offer.context) > dearest:
        window -= 1
    return window
