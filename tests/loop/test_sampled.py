"""Texts of the real loop have exactly the target's distribution: three tokens at a time.

A test of one position cannot see noise that is used twice. The three are the first that can be
drafted, after the token that the prompt's own pass gives. Seeds are fixed, so the outcome of every
test here is always the same.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pytest
import torch
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.choose import choose
from draftwalk.draft.none import CountingState, EmptyDrafter
from draftwalk.ops.torch import DenseMatrix
from draftwalk.rows import Rows
from draftwalk.sequence import Request
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.target import PassOutput, SharedTables
from draftwalk.verify.distribution import Support, candidate_support
from draftwalk.verify.noise import Noise, Purpose
from draftwalk.verify.verdict import choose_coupled
from draftwalk.window import Calibration, Certain, Measured, Offer, Windows
from support.models import DOUBLE
from support.scripted import make_loop

V, LENGTH, SEEDS, BATCH = 3, 3, 2000, 100
TOKENS = LENGTH + 2  # one before them, and one behind for the bonus
IDS = torch.arange(V)
PROMPT = [2, 0]
WORDS = list(itertools.product(range(V), repeat=LENGTH))
LIMIT = 54.05  # chi-square with 26 degrees of freedom stays below with probability 0.999


class Table:
    """log P(next token | token, place): what a target or a drafter believes."""

    def __init__(self, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.logits = 1.5 * torch.randn(V, 8, V, generator=draw, dtype=torch.float64)

    def row(self, token: int, place: int) -> Tensor:
        return self.logits[token, place]

    def support(self, request: DraftRequest, history: Sequence[int]) -> Support:
        row = self.row(history[-1], len(history) - 1)
        return candidate_support(IDS, row, request.sampling, history)

    def probability(self, word: Sequence[int]) -> float:
        """Of this word after the prompt and any one token."""
        total = 0.0
        for first in range(V):
            text, p = list(PROMPT), 1.0
            for token in (first, *word):
                p *= float(self.row(text[-1], len(text) - 1).softmax(-1)[token])
                text.append(token)
            total += p
        return total


TRUTH, BELIEF, OTHER = Table(1), Table(2), Table(5)


class TableTarget:
    vocabulary, width, depth, context = V, 1, 1, 100
    ops = DOUBLE
    tables = SharedTables(DenseMatrix(torch.zeros(V, 1)), DenseMatrix(torch.zeros(V, 1)))

    def new_state(self) -> CountingState:
        return CountingState()

    def forward(self, rows: Rows, state: CountingState, taps: tuple[int, ...]) -> PassOutput:
        wanted = rows.wanted
        return PassOutput.of(rows, TRUTH.logits[rows.tokens[wanted], rows.places[wanted]], [])


Propose = Callable[[DraftRequest], Draft]


class FunctionDrafter:
    """Proposes what a function says."""

    taps = ()
    context = 2**40
    shortens = False

    block = LENGTH + 1

    def __init__(self, propose: Propose) -> None:
        self.state = CountingState()
        self._propose = propose

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        return [self._propose(request) for request in requests]

    def observe(self, rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        self.state.begin(rows)
        self.state.commit(kept)


def walk(request: DraftRequest, belief: Callable[[int], Table]) -> Draft:
    """An honest draft: drawn from q, which `belief` picks for each place."""
    tokens: list[int] = []
    q: list[Support] = []
    sure: list[float] = []
    for n in range(request.limit):
        history = [*request.history, *tokens]
        support = belief(len(history)).support(request, history)
        token = choose(support, request, q, n)
        assert token is not None
        tokens.append(token)
        sure.append(support.probability(token))
    return Draft(tuple(tokens), tuple(q), tuple(sure))


def honest(request: DraftRequest) -> Draft:
    return walk(request, lambda place: BELIEF)


def picks_q_by_other_noise(request: DraftRequest) -> Draft:
    """Rejection: what q is depends on all noise but the place's own."""

    def belief(place: int) -> Table:
        before = request.noise.uniform(place - 1, Purpose.ACCEPT)
        after = request.noise.uniform(place + 1, Purpose.DRAFT)
        return OTHER if before + after < 1 else BELIEF

    return walk(request, belief)


def reads_the_noise(request: DraftRequest) -> Draft:
    """Coupled: knows what the target will say, and helps or spoils as the noise behind it tells."""
    tokens: list[int] = []
    while len(tokens) < request.limit:
        history = [*request.history, *tokens]
        at = len(history)
        winner = choose_coupled(TRUTH.support(request, history), request.noise, at)
        spoil = request.noise.key(at + 1, Purpose.TOKEN) % 5 < 2
        tokens.append((winner + 1) % V if spoil else winner)
    q = tuple(Support.certain(token) for token in tokens)
    return Draft(tuple(tokens), q, (1.0,) * len(tokens))


def texts(
    drafter,
    sampling: Callable[[int], Sampling],
    window: Window | None = None,
    seeds: int = SEEDS,
    windows: Callable[[], Windows] | None = None,
) -> tuple[list[tuple[int, ...]], int, int]:
    """The word of every seed, and how many tokens were drafted and accepted."""
    loop = make_loop(TableTarget(), drafter)
    loop.windows = loop.windows if windows is None else windows()
    # A pass of all rows costs a little more than one of the anchors, and nothing is learned of it.
    loop.windows.measured(Measured({1: 1.0, BATCH: 1.5, BATCH * (1 + LENGTH): 2.0}))
    loop.windows.spent = lambda _: None  # type: ignore[method-assign]
    words, drafted, accepted = [], 0, 0
    for start in range(0, seeds, BATCH):
        sequences = [
            loop.admit(Request(PROMPT, sampling(seed), Limits(TOKENS), window or Window()))
            for seed in range(start, start + BATCH)
        ]
        while loop.busy:
            loop.step()
        for sequence in sequences:
            drafted += sum(len(step.draft) for step in sequence.steps)
            accepted += sum(step.accepted for step in sequence.steps)
            words.append(tuple(sequence.generated[1 : 1 + LENGTH]))
            loop.release(sequence)
    return words, drafted, accepted


def chi_square(words: Sequence[tuple[int, ...]], truth: Table = TRUTH) -> float:
    seen = Counter(words)
    expected = {word: len(words) * truth.probability(word) for word in WORDS}
    assert math.isclose(sum(expected.values()), len(words))
    return sum((seen[word] - n) ** 2 / n for word, n in expected.items())


def coupled(seed: int) -> Sampling:
    return Sampling(temperature=1.0, seed=seed)


def rejection(seed: int) -> Sampling:
    return Sampling(temperature=1.0, seed=seed, rule="rejection")


COUPLED = {
    "honest": (honest, Window()),
    "reads the noise": (reads_the_noise, Window()),
    "unsure": (honest, Window(n_min=2, p_min=0.4)),
    "auto": (honest, Window(auto=True)),
}
REJECTION = {
    "honest": (honest, Window()),
    "auto": (honest, Window(auto=True)),
    "unsure": (honest, Window(p_min=0.5)),
    "unsure and auto": (honest, Window(p_min=0.5, auto=True)),
    "q by other noise": (picks_q_by_other_noise, Window()),
}


def check_drafts(drafted: int, accepted: int, seeds: int) -> None:
    assert drafted > seeds
    assert 0.2 < accepted / drafted < 0.95, "drafts are neither all right nor all wrong"


@pytest.mark.parametrize("case", COUPLED)
def test_coupled_texts(case: str) -> None:
    """Those of plain decoding, seed by seed; of these, one set is judged on its own as well."""
    propose, window = COUPLED[case]
    seeds = SEEDS if case == "reads the noise" else SEEDS // 4
    words, drafted, accepted = texts(FunctionDrafter(propose), coupled, window, seeds)
    check_drafts(drafted, accepted, seeds)
    assert tuple(words) == plain()[:seeds]
    if seeds == SEEDS:
        assert chi_square(words) < LIMIT


@pytest.mark.parametrize("case", REJECTION)
def test_rejection_texts(case: str) -> None:
    propose, window = REJECTION[case]
    seeds = SEEDS if case == "honest" else SEEDS // 2
    words, drafted, accepted = texts(FunctionDrafter(propose), rejection, window, seeds)
    check_drafts(drafted, accepted, seeds)
    assert chi_square(words) < LIMIT


class PastWindows(Windows):
    """A window that the outcomes of earlier drafts of the text settle, as wildly as may be."""

    def __init__(self) -> None:
        super().__init__(Calibration.usual(LENGTH))
        self._past: dict[int, int] = {}

    def begin(self, slot: int, window: Window, sampling: Sampling) -> None:
        super().begin(slot, window, sampling)
        self._past[slot] = 1

    def limit(self, slot: int, room: int) -> int:
        super().limit(slot, room)
        return min(room, (0, 3, 1, 2, 3)[self._past[slot] % 5])

    def learn(self, slot: int, accepted: int, judged: bool = True) -> None:
        self._past[slot] = 3 * self._past[slot] + accepted + 1


def test_windows_settled_by_the_past_bias_nothing_under_rejection() -> None:
    words, drafted, accepted = texts(
        FunctionDrafter(honest), rejection, seeds=SEEDS, windows=PastWindows
    )
    check_drafts(drafted, accepted, SEEDS // 2)
    assert chi_square(words) < LIMIT


class SureWindows(PastWindows):
    """What auto must not do: it drops what the drafter is not sure of, after it was drawn."""

    def limit(self, slot: int, room: int) -> int:
        return room

    def choose(self, offers: Sequence[Offer], certain: Certain) -> list[int]:
        return [
            next((n for n, sure in enumerate(offer.confidence) if sure < 0.5), LENGTH)
            for offer in offers
        ]


def test_windows_chosen_by_confidence_would_bias_the_text() -> None:
    words, _, _ = texts(FunctionDrafter(honest), rejection, seeds=SEEDS, windows=SureWindows)
    assert chi_square(words) > LIMIT


@cache
def plain() -> tuple[tuple[int, ...], ...]:
    return tuple(texts(EmptyDrafter(), coupled)[0])


def test_plain_texts_and_what_the_statistic_can_see() -> None:
    words = list(plain())
    assert chi_square(words) < LIMIT
    # A draft that is taken as it is, one text in twelve, is noticed.
    for n in range(0, SEEDS, 12):
        first = TRUTH.support(DraftRequest(0, PROMPT, 1, coupled(n), Noise(n)), PROMPT)
        history = [*PROMPT, choose_coupled(first, Noise(n), len(PROMPT))]
        words[n] = honest(DraftRequest(0, history, LENGTH, coupled(n), Noise(n))).tokens
    assert chi_square(words) > LIMIT
