"""The filters against a slow oracle, ties, faults, and independence of a row from its company."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from draftwalk.errors import NumericalError, PromptError
from draftwalk.settings import Sampling
from draftwalk.verify import Noise, Support, candidate_support, coupled, rejection, supports

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
CLOSE = 1e-9  # a cut nearer than this to its threshold is up to rounding, unless it is a tie


def oracle_logits(logits: Sequence[float], sampling: Sampling, text: Sequence[int]) -> list[float]:
    """Bias, bans and penalties of one row, a token at a time."""
    n = sampling.repeat_last_n
    window = list(text) if n < 0 else list(text)[len(text) - min(n, len(text)) :]
    changed = []
    for token, logit in enumerate(logits):
        logit += sampling.logit_bias.get(token, 0.0)
        count = window.count(token)
        if count:
            factor = sampling.repeat_penalty
            logit = logit / factor if logit > 0 else logit * factor
            logit -= count * sampling.frequency_penalty
            logit -= sampling.presence_penalty
        changed.append(logit)
    return changed


def oracle(
    logits: Sequence[float], sampling: Sampling, text: Sequence[int]
) -> tuple[dict[int, float], float]:
    """One row's distribution, and how near any cut came to its threshold."""
    changed = oracle_logits(logits, sampling, text)
    ranking = sorted(range(len(changed)), key=lambda token: (-changed[token], token))
    if sampling.temperature < 1e-6:
        return {ranking[0]: 1.0}, math.inf
    top = changed[ranking[0]]
    weight = {t: math.exp((changed[t] - top) / sampling.temperature) for t in ranking}
    left = ranking[: sampling.top_k] if sampling.top_k else ranking
    left = [token for token in left if weight[token] > 0]
    total, margin = math.fsum(weight[t] for t in left), math.inf
    nucleus, before = [], 0.0
    for token in left:
        if token != left[0] and sampling.top_p < 1:
            margin = min(margin, abs(before - sampling.top_p))
        if token == left[0] or sampling.top_p == 1 or before < sampling.top_p:
            nucleus.append(token)
        before += weight[token] / total
    fits = [token for token in nucleus if weight[token] >= sampling.min_p]
    for token in nucleus:
        if changed[token] != top and sampling.min_p:
            margin = min(margin, abs(weight[token] - sampling.min_p))
    total = math.fsum(weight[token] for token in fits)
    return {token: weight[token] / total for token in sorted(fits)}, margin


def agrees(support: Support, expected: dict[int, float]) -> None:
    assert support.fault is None
    assert support.ids.dtype == torch.int64
    assert support.p.dtype == torch.float64
    assert support.ids.device.type == support.p.device.type == "cpu"
    assert support.ids.tolist() == list(expected)
    assert support.p.tolist() == pytest.approx(list(expected.values()), rel=1e-11, abs=1e-300)


coarse = st.integers(-12, 12).map(lambda n: n / 2)  # ties abound
logit = st.one_of(coarse, coarse, coarse, st.floats(-20, 20), st.just(-math.inf))
maybe = st.sampled_from


@st.composite
def samplings(draw: st.DrawFn, V: int) -> Sampling:
    return Sampling(
        temperature=draw(st.one_of(maybe([0.0, 1.0, 0.7]), st.floats(0.05, 5))),
        top_k=draw(st.integers(0, V + 3)),
        top_p=draw(st.one_of(st.just(1.0), st.floats(0, 1))),
        min_p=draw(st.one_of(st.just(0.0), st.floats(0, 1))),
        repeat_penalty=draw(maybe([1.0, 1.3, 0.8])),
        repeat_last_n=draw(st.integers(-1, 9)),
        presence_penalty=draw(maybe([0.0, 0.5, -0.5])),
        frequency_penalty=draw(maybe([0.0, 0.3, -0.2])),
        logit_bias=draw(
            st.dictionaries(st.integers(0, V - 1), maybe([-math.inf, 1.0, -2.5]), max_size=3)
        ),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[float]], Sampling, list[int], list[int]]:
    V = draw(st.integers(1, 14))
    draft = draw(st.lists(st.integers(0, V - 1), max_size=4))
    row = st.lists(logit, min_size=V, max_size=V)
    rows = draw(st.lists(row, min_size=len(draft) + 1, max_size=len(draft) + 1))
    history = draw(st.lists(st.integers(0, V - 1), max_size=12))
    return rows, draw(samplings(V)), history, draft


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=250, deadline=None)
@given(cases())
def test_supports_equal_the_oracle_row_by_row(
    device: str, case: tuple[list[list[float]], Sampling, list[int], list[int]]
) -> None:
    rows, sampling, history, draft = case
    given_logits = torch.tensor(rows, dtype=torch.float64, device=device)
    logits = given_logits.clone()
    found = supports(logits, sampling, history, draft)
    assert torch.equal(logits, given_logits), "the logits belong to the caller"
    for i, (row, support) in enumerate(zip(rows, found, strict=True)):
        text = history + draft[:i]
        if max(row) == -math.inf:
            assert isinstance(support.fault, NumericalError)
        elif max(oracle_logits(row, sampling, text)) == -math.inf:
            assert isinstance(support.fault, PromptError)
        else:
            expected, margin = oracle(row, sampling, text)
            assume(margin > CLOSE)
            agrees(support, expected)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_candidates_are_a_vocabulary_that_is_minus_infinity_elsewhere(
    case: tuple[list[list[float]], Sampling, list[int], list[int]],
) -> None:
    (row, *_), sampling, history, _ = case
    scores = torch.tensor(row, dtype=torch.float64)
    ids = torch.randperm(40, generator=torch.Generator().manual_seed(len(history)))[: len(row)]
    # Bans and the text name some of the candidates' ids as well as others.
    name = {i: int(token) for i, token in enumerate(ids)}
    sampling = replace(
        sampling, logit_bias={name.get(i, i): b for i, b in sampling.logit_bias.items()}
    )
    text = [name.get(token, token) for token in history]
    whole = torch.full((1, 40), -math.inf, dtype=torch.float64)
    whole[0, ids] = scores
    (expected,) = supports(whole, sampling, text, ())
    if max(row) == -math.inf:
        fault = candidate_support(ids, scores, sampling, text).fault
        assert isinstance(fault, NumericalError)
        assert "drafter" in str(fault)
    elif expected.fault is not None:
        unbanned = replace(sampling, logit_bias={})
        (expected,) = supports(whole, unbanned, text, ())
        agrees(
            candidate_support(ids, scores, sampling, text),
            dict(zip(expected.ids.tolist(), expected.p.tolist(), strict=True)),
        )
    else:
        got = candidate_support(ids, scores, sampling, text)
        assume(oracle(whole[0].tolist(), sampling, text)[1] > CLOSE)
        agrees(got, dict(zip(expected.ids.tolist(), expected.p.tolist(), strict=True)))


def one(
    logits: Sequence[float], sampling: Sampling, history: Sequence[int] = ()
) -> dict[int, float]:
    (support,) = supports(torch.tensor([logits]), sampling, history, ())
    assert support.fault is None
    return dict(zip(support.ids.tolist(), support.p.tolist(), strict=True))


def test_ties_go_to_the_lowest_id() -> None:
    same = [1.0, 2.0, 2.0, 2.0, 2.0, 0.0]
    assert list(one(same, Sampling())) == [1]
    assert list(one(same, Sampling(temperature=1, top_k=1))) == [1]
    assert list(one(same, Sampling(temperature=1, top_k=3))) == [1, 2, 3]
    assert list(one([5.0] * 8, Sampling(temperature=1, top_k=3))) == [0, 1, 2]
    assert list(one([5.0] * 8, Sampling(temperature=1, top_p=0.5))) == [0, 1, 2, 3]
    assert list(one([5.0] * 8, Sampling(temperature=1, top_p=0.51))) == [0, 1, 2, 3, 4]
    assert list(one([5.0] * 8, Sampling(temperature=1, min_p=1.0))) == list(range(8))
    assert list(one([0.0, 3.0, 3.0], Sampling(logit_bias={1: -0.5}))) == [2]
    half = torch.tensor([[0.5] * 300], dtype=torch.bfloat16)
    (support,) = supports(half, Sampling(temperature=1, top_k=129), (), ())
    assert support.ids.tolist() == list(range(129))


def test_edges_of_each_filter() -> None:
    falling = [4.0, 3.0, 2.0, 1.0]
    assert list(one(falling, Sampling(temperature=1, top_k=99))) == [0, 1, 2, 3]
    assert list(one(falling, Sampling(temperature=1, top_k=0))) == [0, 1, 2, 3]
    for tiny in (0.0, 1e-300, 1e-9):
        assert one(falling, Sampling(temperature=1, top_p=tiny)) == {0: 1.0}
    assert one(falling, Sampling(temperature=1, min_p=1.0)) == {0: 1.0}
    assert list(one(falling, Sampling(temperature=1, min_p=math.exp(-1.5)))) == [0, 1]
    for cold in (0.0, 1e-300, 1e-9):
        assert one(falling, Sampling(temperature=cold)) == {0: 1.0}
    assert one([0.0, -math.inf, -math.inf], Sampling(temperature=1, top_k=2)) == {0: 1.0}
    assert one([0.0, -2000.0], Sampling(temperature=1)) == {0: 1.0}, "exp underflows: not in it"
    # top-k cuts before top-p measures: of the two that are left the first has 0.73.
    assert list(one(falling, Sampling(temperature=1, top_k=2, top_p=0.7))) == [0]
    assert list(one(falling, Sampling(temperature=1, top_p=0.7))) == [0, 1]


def test_bias_comes_before_penalties_and_bans_hold() -> None:
    # 1.0 - 2.0 = -1.0 is negative, so the penalty multiplies: -2.0, below -1.5.
    sampling = Sampling(logit_bias={0: -2.0}, repeat_penalty=2.0)
    assert list(one([1.0, -1.5], sampling, [0])) == [1]
    assert list(one([9.0, 1.0, 2.0], Sampling(logit_bias={0: -math.inf, 2: -math.inf}))) == [1]
    banned = Sampling(temperature=1, logit_bias={0: -math.inf, 1: -100.0})
    assert list(one([9.0, 1.0, 2.0], banned)) == [1, 2]
    with pytest.raises(PromptError, match=r"token 3.*vocabulary has 3"):
        one([9.0, 1.0, 2.0], Sampling(logit_bias={3: 1.0}))


def test_penalties_see_the_draft_row_by_row_and_slide() -> None:
    logits = torch.zeros(5, 6, dtype=torch.float64)
    sampling = Sampling(temperature=1, frequency_penalty=1.0, repeat_last_n=3)
    found = supports(logits, sampling, [0, 1, 1], [2, 1, 3, 3])
    windows = [[0, 1, 1], [1, 1, 2], [1, 2, 1], [2, 1, 3], [1, 3, 3]]
    for support, window in zip(found, windows, strict=True):
        expected = [-float(window.count(token)) for token in range(6)]
        weights = torch.tensor(expected, dtype=torch.float64).softmax(-1)
        assert support.p.tolist() == pytest.approx(weights.tolist(), rel=1e-13)
    outside = supports(logits[:1], sampling, [-1, 6, 400_000], ())[0]
    assert outside.p.tolist() == pytest.approx([1 / 6] * 6), "ids without a logit are no matter"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(repeat_penalty=1.1),
        Sampling(temperature=1),
        Sampling(temperature=1, top_k=3),
        Sampling(temperature=1, top_p=0.9),
        Sampling(temperature=1, logit_bias={4: -math.inf}),
    ],
)
def test_a_bad_row_ends_its_sequence_only_where_the_verdict_reaches_it(
    bad: float, sampling: Sampling
) -> None:
    logits = torch.full((3, 8), -9.0)
    logits[0, 2] = logits[1, 3] = logits[2, 4] = 50.0
    logits[1, 4] = bad  # also where the token is banned
    noise = Noise(0)
    found = supports(logits, sampling, [0], [2, 3])
    certain = [Support.certain(2), Support.certain(3)]
    for verdict in (
        coupled(found, [2, 3], noise, 1),
        rejection(found, [2, 3], certain, noise, 1),
    ):
        assert (verdict.accepted, verdict.token) == (1, None)
        assert isinstance(verdict.fault, NumericalError)
        assert "row 1 of the logits" in str(verdict.fault)
    fine = supports(logits, sampling, [0], [7, 3])
    assert coupled(fine, [7, 3], noise, 1).accepted == 0
    assert rejection(fine, [7, 3], [Support.certain(7), Support.certain(3)], noise, 1).token == 2
    assert (fine[0].ids.tolist(), fine[2].fault) == (found[0].ids.tolist(), None)


def test_all_minus_infinity_and_all_banned_are_told_apart() -> None:
    nothing = torch.full((1, 4), -math.inf)
    ban = Sampling(temperature=1, logit_bias=dict.fromkeys(range(4), -math.inf))
    fault = coupled(supports(nothing, Sampling(), (), ()), [], Noise(0), 0).fault
    assert isinstance(fault, NumericalError)
    assert "no finite value" in str(fault)
    for sampling in (ban, replace(ban, temperature=0.0)):
        fault = coupled(supports(torch.zeros(1, 4), sampling, (), ()), [], Noise(0), 0).fault
        assert isinstance(fault, PromptError)
        assert "bans every" in str(fault)


FILTERS = [
    Sampling(temperature=0.8),
    Sampling(temperature=0.8, top_k=40),
    Sampling(temperature=0.8, top_p=0.95),
    Sampling(temperature=1.5, top_p=0.999, min_p=1e-5),
    Sampling(temperature=0.8, min_p=0.02),
    Sampling(temperature=0.8, top_k=50, top_p=0.9, min_p=0.01, repeat_penalty=1.2),
    Sampling(temperature=0.8, frequency_penalty=0.2, repeat_last_n=-1, logit_bias={7: 3.0}),
]


@pytest.mark.parametrize("sampling", FILTERS)
def test_a_row_has_the_same_bits_in_any_company(sampling: Sampling) -> None:
    V, draft = 40_000, [7, 7, 11]
    logits = torch.randn(4, V, generator=torch.Generator().manual_seed(1)) * 2
    logits[2] *= 0.1  # a flat row makes top-p look further than its neighbours need
    history = [5, 7, 9]
    threads = torch.get_num_threads()
    together = supports(logits, sampling, history, draft)
    try:
        torch.set_num_threads(2 if threads == 1 else 1)
        for i, row in enumerate(together):
            (alone,) = supports(logits[i : i + 1], sampling, history + draft[:i], ())
            assert torch.equal(row.ids, alone.ids)
            assert torch.equal(row.p, alone.p)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("sampling", FILTERS)
def test_a_large_vocabulary_agrees_with_the_oracle(sampling: Sampling) -> None:
    logits = torch.randn(1, 5000, generator=torch.Generator().manual_seed(2)) * 0.5
    logits = (logits * 64).round() / 64  # many ties
    (support,) = supports(logits, sampling, [7, 8], ())
    expected, margin = oracle(logits[0].tolist(), sampling, [7, 8])
    assert margin > CLOSE
    agrees(support, expected)


def test_probability_looks_up_the_support() -> None:
    support = Support(torch.tensor([2, 5]), torch.tensor([0.25, 0.75], dtype=torch.float64))
    assert [support.probability(t) for t in (0, 2, 3, 5, 9)] == [0, 0.25, 0, 0.75, 0]
    assert Support.certain(4).probability(4) == 1
