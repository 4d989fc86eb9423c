"""The rejection rule without Monte Carlo: every branch enumerated, masses added up.

The branches are walked by the real `rejection`, `choose_rejection` and `verified`; the scripted
noise puts each number inside the interval that leads into one branch, whose width is its mass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from draftwalk.settings import Rule, Sampling, Window
from draftwalk.verify import (
    Noise,
    Purpose,
    Support,
    Verdict,
    acceptance,
    candidate_support,
    choose_rejection,
    rejection,
    residual,
    supports,
    verified,
)
from support.toy_chain import Text, ToyChain


@dataclass(frozen=True)
class Scripted(Noise):
    numbers: dict[tuple[int, Purpose], float] = field(default_factory=dict)

    def uniform(self, position: int, purpose: Purpose) -> float:
        return self.numbers[position, purpose]


def support(weights: dict[int, float]) -> Support:
    ids = sorted(token for token, w in weights.items() if w > 0)
    p = torch.tensor([weights[token] for token in ids], dtype=torch.float64)
    return Support(torch.tensor(ids), p / p.sum())


def masses(s: Support) -> dict[int, float]:
    return dict(zip(s.ids.tolist(), s.p.tolist(), strict=True))


def middles(s: Support) -> Iterator[tuple[int, float, float]]:
    """Token, mass, and a uniform in the middle of its interval."""
    for (token, mass), end in zip(masses(s).items(), s.p.cumsum(0).tolist(), strict=True):
        yield token, mass, end - mass / 2


def drafts(
    q_of: ToyChain, text: Text, K: int, at: int
) -> Iterator[tuple[list[int], list[Support], float, dict[tuple[int, Purpose], float]]]:
    """Every draft of K tokens by honest draws: tokens, q, mass, and the numbers drawn."""
    if K == 0:
        yield [], [], 1.0, {}
        return
    q = q_of.support(text)
    for token, mass, u in middles(q):
        numbers = {(at, Purpose.DRAFT): u}
        assert choose_rejection(q, Scripted(0, 0, numbers), at) == token
        for rest, q_rest, m, n in drafts(q_of, (*text, token), K - 1, at + 1):
            yield [token, *rest], [q, *q_rest], mass * m, numbers | n


def branches(
    rows: Sequence[Support], draft: Sequence[int], q: Sequence[Support], position: int
) -> Iterator[tuple[Verdict, float]]:
    """Every verdict on one draft, with its mass."""
    reached, numbers = 1.0, {}
    for i in range(len(draft) + 1):
        last = i == len(draft)
        odds = 0.0 if last else acceptance(rows[i], q[i], draft[i])
        correction = rows[i] if last else residual(rows[i], q[i])
        if odds < 1:
            for token, mass, u in middles(correction):
                script = numbers | {(position + i, Purpose.RESIDUAL): u}
                if not last:
                    script[position + i, Purpose.ACCEPT] = (odds + 1) / 2
                verdict = rejection(rows, draft, q, Scripted(0, 0, script), position)
                assert verdict == Verdict(i, token)
                yield verdict, reached * (1 - odds) * mass
        if odds == 0:
            return
        numbers[position + i, Purpose.ACCEPT] = odds / 2
        reached *= odds


def texts(
    target: ToyChain, drafter: ToyChain, text: Text, length: int, K: int, window: Window, rule: Rule
) -> dict[Text, float]:
    """The exact distribution of the next `length` tokens written by whole steps of the loop."""

    @cache
    def after(text: Text, length: int) -> dict[Text, float]:
        if length <= 0:
            return {(): 1.0}
        total: dict[Text, float] = {}
        for draft, q, mass, _ in drafts(drafter, text, K, len(text)):
            confidence = [s.probability(token) for s, token in zip(q, draft, strict=True)]
            n = verified(confidence, window, rule)
            rows = target.rows(text, draft[:n])
            for verdict, share in branches(rows, draft[:n], q[:n], len(text)):
                new = (*draft[: verdict.accepted], verdict.token)
                for tail, m in after(text + new, length - len(new)).items():
                    whole = (*new, *tail)[:length]
                    total[whole] = total.get(whole, 0.0) + mass * share * m
        return total

    return after(text, length)


def distance(a: dict[Text, float], b: dict[Text, float]) -> float:
    return max(abs(a.get(text, 0.0) - b.get(text, 0.0)) for text in a.keys() | b.keys())


def one_token(p: Support, q: Support) -> dict[int, float]:
    """What comes out at one position, from the pure functions alone."""
    out: dict[int, float] = {}
    for drafted, mass in masses(q).items():
        odds = acceptance(p, q, drafted)
        out[drafted] = out.get(drafted, 0.0) + mass * odds
        for token, share in masses(residual(p, q)).items():
            out[token] = out.get(token, 0.0) + mass * (1 - odds) * share
    return out


def exact(p: Support, q: Support) -> bool:
    out = one_token(p, q)
    known = masses(p)
    return all(abs(out.get(t, 0.0) - known.get(t, 0.0)) < 1e-12 for t in out.keys() | known.keys())


weight = st.one_of(st.just(0.0), st.floats(1e-6, 1.0), st.floats(1e-12, 1e-9))
weights = st.dictionaries(st.integers(0, 9), weight, min_size=1).filter(lambda w: any(w.values()))


@settings(max_examples=150, deadline=None)
@given(weights, weights)
def test_drafts_times_acceptance_plus_residual_is_p(
    p: dict[int, float], q: dict[int, float]
) -> None:
    assert exact(support(p), support(q))
    assert exact(support(p), support(p))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ({0: 1.0}, {0: 1.0}),
        ({0: 1.0}, {1: 1.0}),
        ({0: 0.3, 1: 0.7}, {1: 1.0}),
        ({1: 1.0}, {0: 0.3, 1: 0.7}),
        ({0: 0.5, 1: 0.5}, {2: 0.9, 3: 0.1}),
        ({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}),
        ({0: 1e-300, 1: 1.0}, {0: 1.0, 1: 1e-300}),
    ],
)
def test_one_hot_and_disjoint_supports(p: dict[int, float], q: dict[int, float]) -> None:
    assert exact(support(p), support(q))


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0, 2, 4]),
    st.sampled_from([1.0, 0.8, 0.3]),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from([1.0, 1.4]),
)
def test_one_token_with_filters_and_penalties(
    seed: int, top_k: int, top_p: float, min_p: float, repeat_penalty: float
) -> None:
    sampling = Sampling(
        temperature=0.9, top_k=top_k, top_p=top_p, min_p=min_p, repeat_penalty=repeat_penalty,
        presence_penalty=0.2, logit_bias={3: -math.inf, 1: 0.5},
    )  # fmt: skip
    g = torch.Generator().manual_seed(seed)
    logits, text = torch.randn(1, 8, generator=g) * 2, [1, 4, 4]
    (p,) = supports(logits, sampling, text, ())
    ids = torch.randperm(8, generator=g)[:5]
    scores = logits[0, ids] + torch.randn(5, generator=g)
    assert exact(p, candidate_support(ids, scores, sampling, text))
    assert exact(p, candidate_support(ids, scores, Sampling(temperature=0.5), text))


def test_the_proof_can_fail() -> None:
    """Each of these wrong rules, put in place of the right one, is seen."""
    p, q = support({0: 0.2, 1: 0.3, 2: 0.5}), support({0: 0.6, 1: 0.3, 2: 0.1})
    out = dict.fromkeys(range(3), 0.0)
    for drafted, mass in masses(q).items():  # correction from p instead of the residual
        odds = acceptance(p, q, drafted)
        out[drafted] += mass * odds
        for token, share in masses(p).items():
            out[token] += mass * (1 - odds) * share
    assert max(abs(out[t] - m) for t, m in masses(p).items()) > 0.01
    assert max(abs(m - masses(p)[t]) for t, m in masses(q).items()) > 0.01  # accept everything


CHAINS = {
    "plain": Sampling(temperature=1.0),
    "top_k": Sampling(temperature=0.8, top_k=2),
    "top_p": Sampling(temperature=1.2, top_p=0.7),
    "min_p": Sampling(temperature=1.0, min_p=0.3),
    "penalties": Sampling(
        temperature=0.9, repeat_penalty=1.5, frequency_penalty=0.4, repeat_last_n=2
    ),
    "greedy": Sampling(),
}
WINDOWS = [Window(), Window(n_max=1), Window(n_max=0), Window(p_min=0.4), Window(p_min=0.9)]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_whole_blocks_write_exactly_the_targets_chain(name: str, window: Window) -> None:
    """Two drafted tokens, three of text, every branch of every step, cuts in place."""
    target = ToyChain(3, CHAINS[name], seed=1)
    drafter = ToyChain(3, Sampling(temperature=1.0), seed=2)
    written = texts(target, drafter, (0,), 3, 2, window, "rejection")
    assert distance(written, target.distribution((0,), 3)) < 1e-12
    assert math.isclose(sum(written.values()), 1.0, abs_tol=1e-12)


def test_cutting_before_an_unlikely_token_would_bias_the_text() -> None:
    """Why p_min cuts after the token under rejection: the other cut is off by percents."""
    target = ToyChain(3, CHAINS["plain"], seed=1)
    drafter = ToyChain(3, Sampling(temperature=1.0), seed=2)
    biased = texts(target, drafter, (0,), 3, 2, Window(p_min=0.4), "coupled")
    assert distance(biased, target.distribution((0,), 3)) > 0.005
