"""The verdict functions one by one: races, odds, windows, and acceptance as theory has it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from draftwalk.errors import PromptError
from draftwalk.settings import Sampling, Window
from draftwalk.verify import (
    Noise,
    Purpose,
    Support,
    Verdict,
    acceptance,
    choose_coupled,
    choose_rejection,
    coupled,
    rejection,
    residual,
    supports,
    verified,
)


def random_support(seed: int, V: int, spread: float) -> Support:
    logits = torch.randn(1, V, generator=torch.Generator().manual_seed(seed)) * spread
    return supports(logits, Sampling(temperature=1.0), (), ())[0]


@pytest.mark.parametrize(
    ("V", "spread"), [(2, 0.1), (5, 2.0), (300, 8.0), (4000, 1.0), (4000, 3.0)]
)
def test_the_short_race_has_the_winner_of_the_whole_race(V: int, spread: float) -> None:
    noise = Noise(11)
    for position in range(60):
        p = random_support(position, V, spread)
        whole = noise.exponentials(position, p.ids) / p.p
        assert choose_coupled(p, noise, position) == int(p.ids[whole.argmin()])


def test_a_race_between_equals_goes_to_the_lowest_id() -> None:
    class Same(Noise):
        def uniforms_on_host(self, position: int, ids: np.ndarray) -> np.ndarray:
            return np.full(len(ids), 0.5)

    p = Support(torch.tensor([3, 4, 8, 9]), torch.tensor([0.1, 0.4, 0.4, 0.1]).double())
    assert choose_coupled(p, Same(0), 0) == 4


def test_greedy_is_the_coupled_rule_without_noise() -> None:
    class NoNoise(Noise):
        def key(self, position: int, purpose: Purpose) -> int:
            raise AssertionError("a support of one needs no number")

    rows = [Support.certain(token) for token in (4, 5, 6)]
    assert coupled(rows, [4, 5], NoNoise(0), 7) == Verdict(2, 6)
    assert coupled(rows, [4, 9], NoNoise(0), 7) == Verdict(1, 5)
    assert coupled(rows, [9, 5], NoNoise(0), 7) == Verdict(0, 4)
    assert coupled(rows[:1], [], NoNoise(0), 7) == Verdict(0, 4)


def test_greedy_under_rejection_accepts_equals() -> None:
    rows = [Support.certain(token) for token in (4, 5, 6)]
    for seed in range(50):
        for draft, verdict in (([4, 5], (2, 6)), ([4, 9], (1, 5)), ([9, 5], (0, 4))):
            q = [Support.certain(token) for token in draft]
            assert rejection(rows, draft, q, Noise(seed), 7) == Verdict(*verdict)


def test_the_odds_are_strict() -> None:
    """u q < p: with equal numbers on both sides the draft fails, and p = 0 is never accepted."""

    class Half(Noise):
        def uniform(self, position: int, purpose: Purpose) -> float:
            return 0.5

    def pair(p0: float, q0: float) -> Verdict:
        p = Support(torch.arange(2), torch.tensor([p0, 1 - p0], dtype=torch.float64))
        q = Support(torch.arange(2), torch.tensor([q0, 1 - q0], dtype=torch.float64))
        return rejection([p, Support.certain(7)], [0], [q], Half(0), 0)

    assert pair(0.25, 0.5) == Verdict(0, 1)
    assert pair(math.nextafter(0.25, 1), 0.5) == Verdict(1, 7)
    impossible = rejection(
        [Support.certain(1), Support.certain(7)], [0], [Support.certain(0)], Half(0), 0
    )
    assert impossible == Verdict(0, 1)


def test_draws_never_leave_the_support() -> None:
    class Edge(Noise):
        def uniform(self, position: int, purpose: Purpose) -> float:
            return (2.0**-54, 1 - 2.0**-53)[position]

    for seed in range(200):
        p = random_support(seed, 50, 6.0)
        first, last = (choose_rejection(p, Edge(0), position) for position in (0, 1))
        assert (first, last) == (int(p.ids[0]), int(p.ids[-1]))


def test_residual_of_equal_distributions_is_the_distribution() -> None:
    p = random_support(0, 9, 1.0)
    assert residual(p, p) is p


def test_a_draft_that_q_cannot_have_drawn_is_our_bug() -> None:
    rows = [Support.certain(0), Support.certain(0)]
    with pytest.raises(AssertionError, match="drawn from q"):
        rejection(rows, [1], [Support.certain(2)], Noise(0), 0)


def test_windows() -> None:
    sure = [0.9, 0.5, 0.2, 0.8]
    assert verified(sure, Window(), "coupled") == 4
    assert verified(sure, Window(n_max=3), "coupled") == 3
    assert verified(sure, Window(n_max=9), "coupled") == 4
    assert verified(sure, Window(n_max=0), "coupled") == 0
    assert verified(sure, Window(p_min=0.5), "coupled") == 2, "the unlikely token goes too"
    assert verified(sure, Window(p_min=0.5), "rejection") == 3, "the unlikely token is judged"
    assert verified(sure, Window(n_max=2, p_min=0.1), "rejection") == 2
    assert verified(sure, Window(n_max=2, p_min=0.6), "rejection") == 2
    assert verified(sure, Window(n_min=3, p_min=0.5), "coupled") == 0, "too short: not verified"
    assert verified(sure, Window(n_min=2, p_min=0.5), "coupled") == 2
    assert verified(sure, Window(p_min=1.0), "coupled") == 0
    assert verified([], Window(n_min=2), "coupled") == 0
    with pytest.raises(PromptError, match="n_min"):
        verified(sure, Window(n_min=1), "rejection")


def coupled_odds(p: Support, q: Support) -> float:
    """P(both races have one winner): the winner's E beats every rival in the harder race."""
    both = torch.zeros(2, int(max(p.ids[-1], q.ids[-1])) + 1, dtype=torch.float64)
    both[0, p.ids], both[1, q.ids] = p.p, q.p
    a, b = both[:, (both > 0).all(0)], both
    hardest = torch.maximum(b[0, None] / a[0, :, None], b[1, None] / a[1, :, None])
    return float((1 / hardest.sum(-1)).sum())


def rejection_odds(p: Support, q: Support) -> float:
    pairs = zip(q.ids.tolist(), q.p.tolist(), strict=True)
    return sum(mass * acceptance(p, q, drafted) for drafted, mass in pairs)


def test_acceptance_is_what_theory_says() -> None:
    """Pairs of random distributions: both rules against their formulas, and against each other."""
    theory, seen = [0.0, 0.0], [0, 0]
    pairs, draws, sampling = 60, 60, Sampling(temperature=1.0)
    for i in range(pairs):
        g = torch.Generator().manual_seed(i)
        logits = torch.randn(1, 60, generator=g) * 2
        (p,) = supports(logits, sampling, (), ())
        (q,) = supports(logits + torch.randn(1, 60, generator=g), sampling, (), ())
        theory[0] += coupled_odds(p, q) / pairs
        theory[1] += rejection_odds(p, q) / pairs
        for position in range(draws):
            noise, rows = Noise(i), [p, Support.certain(0)]
            drafted = choose_coupled(q, noise, position)
            seen[0] += coupled(rows, [drafted], noise, position).accepted
            drafted = choose_rejection(q, noise, position)
            seen[1] += rejection(rows, [drafted], [q], noise, position).accepted
    n = pairs * draws
    for rate, count in zip(theory, seen, strict=True):
        assert abs(count / n - rate) < 4 * math.sqrt(rate * (1 - rate) / n)
    assert theory[0] == pytest.approx(0.60, abs=0.04)
    assert theory[1] == pytest.approx(0.63, abs=0.04)
    assert 0.01 < theory[1] - theory[0] < 0.06


def test_acceptance_of_a_hopeless_drafter_is_not_one() -> None:
    p, q = random_support(0, 40, 3.0), random_support(1, 40, 3.0)
    rows, n = [p, Support.certain(0)], 3000
    stood = sum(
        rejection(rows, [choose_rejection(q, Noise(s), 5)], [q], Noise(s), 5).accepted
        for s in range(n)
    )
    rate = rejection_odds(p, q)
    assert rate < 0.3
    assert abs(stood / n - rate) < 4 * math.sqrt(rate * (1 - rate) / n)


def test_a_drafted_id_the_target_cannot_read_is_rejected_without_bias() -> None:
    """Half of q lies on a foreign id; the text is still half and half."""
    p = Support(torch.tensor([0, 1]), torch.tensor([0.5, 0.5], dtype=torch.float64))
    q = Support(torch.tensor([0, 99]), torch.tensor([0.5, 0.5], dtype=torch.float64))
    first = 0
    for seed in range(4000):
        noise = Noise(seed)
        drafted = choose_rejection(q, noise, 3)
        if drafted == 99:
            verdict = rejection([p], [], [q], noise, 3)
        else:
            verdict = rejection([p, p], [drafted], [q], noise, 3)
        first += drafted == 0 if verdict.accepted else verdict.token == 0
    assert abs(first - 2000) < 4 * math.sqrt(1000)
