"""Choosing from fp32 rows natively gives what the reference gives, and on all vectors the same."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from draftwalk.draft import DraftRequest
from draftwalk.draft.dflash2 import fast_walk, walk
from draftwalk.errors import NumericalError, PromptError, UserError
from draftwalk.settings import Sampling
from draftwalk.verify import Noise, Support, choose_coupled, coupled, supports
from draftwalk.verify.logits import Logits
from draftwalk.verify.native import (
    NO_CHANGES,
    Lattice,
    NativeRow,
    chooser_for,
    filters_of,
    native_chooser,
    native_rows,
)

native = pytest.importorskip("draftwalk._native")

KINDS = native.Chooser.kinds()
EVERY = pytest.mark.parametrize("kind", KINDS)
SAMPLINGS = {
    "plain": Sampling(temperature=0.8),
    "hot": Sampling(temperature=90.0),
    "cold": Sampling(temperature=2e-3),
    "coldest": Sampling(temperature=1e-6),
    "top-k": Sampling(temperature=0.8, top_k=40),
    "wide top-k": Sampling(temperature=1.5, top_k=2000, top_p=0.99),
    "top-p": Sampling(temperature=0.8, top_p=0.95),
    "tiny top-p": Sampling(temperature=0.8, top_p=1e-9),
    "flat top-p": Sampling(temperature=3.0, top_p=0.9),
    "flat top-p and min-p": Sampling(temperature=3.0, top_p=0.999, min_p=0.02),
    "min-p": Sampling(temperature=0.8, min_p=0.02),
    "all": Sampling(temperature=0.8, top_k=50, top_p=0.9, min_p=0.01),
    "greedy": Sampling(),
}
CHANGES = {
    "penalties": Sampling(repeat_penalty=1.3, frequency_penalty=0.2, repeat_last_n=9),
    "presence": Sampling(presence_penalty=-5.0, repeat_last_n=-1),
    "biases": Sampling(logit_bias={3: 9.0, 0: -math.inf, 11: -2.5}),
    "both": Sampling(logit_bias={2: 2.0, 5: -math.inf}, repeat_penalty=0.7, presence_penalty=1.0),
}
KINDS_OF_ROWS = ("spread", "ties", "holes", "flat", "peaked", "huge")


def row_of(kind: str, V: int, seed: int) -> Tensor:
    rng = np.random.default_rng([seed, V])
    row = rng.normal(size=V) * 4
    if kind == "ties":
        row = np.round(row)
    elif kind == "holes":
        row[rng.random(V) < 0.4] = -np.inf
        row[rng.integers(V)] = 2.0
    elif kind == "flat":
        row *= 1e-3
    elif kind == "peaked":
        row[rng.integers(V)] = 60.0
    elif kind == "huge":
        row *= 1e30
    return torch.from_numpy(row.astype(np.float32))


def same(one: Support, other: Support) -> None:
    assert one.fault is None
    assert other.fault is None
    assert torch.equal(one.ids, other.ids)
    assert one.ids.dtype == other.ids.dtype
    torch.testing.assert_close(one.p, other.p, rtol=1e-12, atol=1e-300)


def rows_of(
    kind: str, logits: Tensor, sampling: Sampling, history: Sequence[int], draft: Sequence[int]
) -> Iterator[NativeRow]:
    return native_rows(native.Chooser(kind), logits, sampling, history, draft)


@EVERY
@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize("V", [1, 2, 7, 31, 32, 33, 64, 1000, 4096 + 5])
def test_winners_and_distributions(kind: str, name: str, V: int) -> None:
    sampling = SAMPLINGS[name]
    for number, shape in enumerate(KINDS_OF_ROWS):
        row = row_of(shape, V, number)
        (expected,) = supports(row[None], sampling, (), ())
        (found,) = rows_of(kind, row[None], sampling, (), ())
        same(found.support(), expected)
        for seed in range(12):
            noise = Noise(seed)
            assert found.race(noise, seed) == choose_coupled(expected, noise, seed)


@EVERY
@pytest.mark.parametrize("sampling", ["plain", "top-p", "flat top-p", "min-p"])
def test_a_large_vocabulary(kind: str, sampling: str) -> None:
    for seed, shape in enumerate(("spread", "ties", "flat")):
        row = row_of(shape, 150_011, seed)
        (expected,) = supports(row[None], SAMPLINGS[sampling], (), ())
        (found,) = rows_of(kind, row[None], SAMPLINGS[sampling], (), ())
        for position in range(20):
            noise = Noise(position)
            assert found.race(noise, position) == choose_coupled(expected, noise, position)


def test_thousands_of_draws() -> None:
    row = row_of("spread", 300, 1) / 4
    (expected,) = supports(row[None], Sampling(temperature=1.0), (), ())
    (found,) = rows_of(KINDS[0], row[None], Sampling(temperature=1.0), (), ())
    drawn = [found.race(Noise(5), position) for position in range(8000)]
    assert drawn == [choose_coupled(expected, Noise(5), position) for position in range(8000)]
    assert len(set(drawn)) > 200, "not always the same"


@EVERY
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["plain", "top-k", "top-p", "flat top-p", "min-p", "greedy"])
def test_changed_rows(kind: str, change: str, name: str) -> None:
    own, filters = CHANGES[change], SAMPLINGS[name]
    sampling = replace(
        own,
        temperature=filters.temperature,
        top_k=filters.top_k,
        top_p=filters.top_p,
        min_p=filters.min_p,
    )
    history, draft = [1, 5, 5, 9, 2, 700, -3], [2, 5, 5, 0]
    for V in (12, 40, 800):
        for shape in ("spread", "ties", "holes", "peaked"):
            logits = torch.stack([row_of(shape, V, n) for n in range(5)])
            expected = supports(logits, sampling, history, draft)
            before = logits.clone()
            found = list(rows_of(kind, logits, sampling, history, draft))
            assert torch.equal(before, logits)
            for n, (one, other) in enumerate(zip(found, expected, strict=True)):
                same(one.support(), other)
                for seed in range(4):
                    assert one.race(Noise(seed), n) == choose_coupled(other, Noise(seed), n)


def test_a_draft_may_grow_while_its_rows_are_asked_for() -> None:
    sampling = Sampling(temperature=0.8, frequency_penalty=1.0, repeat_last_n=3)
    logits, draft = torch.zeros(4, 40), [7, 7, 9]
    growing: list[int] = []
    whole = native_rows(native.Chooser(KINDS[0]), logits, sampling, [7, 1], draft)
    for token, row, other in zip(
        [*draft, 0], rows_of(KINDS[0], logits, sampling, [7, 1], growing), whole, strict=True
    ):
        same(row.support(), other.support())
        growing.append(token)


@EVERY
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["plain", "top-p", "greedy"])
@pytest.mark.parametrize("place", [0, 40, 1000, 1023, 1025])
def test_unusable_rows(kind: str, value: float, name: str, place: int) -> None:
    logits = torch.zeros(2, 1026)
    logits[1, place] = value
    if value == -math.inf:
        logits[1] = value
    for sampling in (SAMPLINGS[name], replace(SAMPLINGS[name], logit_bias={place: -math.inf})):
        fine, bad = rows_of(kind, logits, sampling, (), [4])
        assert not isinstance(fine.race(Noise(0), 0), UserError)
        fault = bad.race(Noise(0), 0)
        assert isinstance(fault, NumericalError)
        assert "row 1 of the logits" in str(fault)
        assert str(bad.support().fault) == str(fault)
        verdict = coupled(
            rows_of(kind, logits, replace(sampling, temperature=0), (), [0]), [0], Noise(0), 0
        )
        assert verdict.accepted == (0 if sampling.logit_bias and place == 0 else 1)


@EVERY
def test_bans(kind: str) -> None:
    everything = dict.fromkeys(range(40), -math.inf)
    for sampling in (
        Sampling(temperature=1, logit_bias=everything),
        Sampling(logit_bias=everything),
    ):
        (row,) = rows_of(kind, torch.zeros(1, 40), sampling, (), ())
        assert isinstance(row.race(Noise(0), 0), PromptError)
    some = Sampling(temperature=1, logit_bias={n: -math.inf for n in range(40) if n != 33})
    (row,) = rows_of(kind, torch.zeros(1, 40), some, (), ())
    assert [row.race(Noise(n), n) for n in range(50)] == [33] * 50
    with pytest.raises(PromptError, match="token 40"):
        next(rows_of(kind, torch.zeros(1, 40), Sampling(logit_bias={40: 1.0}), (), ()))


@EVERY
def test_the_least_uniforms_take_part(kind: str) -> None:
    """A race is decided among bits that the quick look at a block does not see."""
    chooser = native.Chooser(kind)

    def winner(token: int, behind: float, start: int) -> int:
        logits = torch.zeros(64)
        logits[token] -= behind
        return chooser.choose(logits.data_ptr(), 64, NO_CHANGES, (1.0, 0, 1.0, 0.0), start)[0]

    for token in (0, 7, 31, 32, 63):
        # The stream's value for this id is 0: the least uniform, 2^-54, whose -log is 37.4.
        start = -(token + 1) * 0x9E3779B97F4A7C15 % 2**64
        assert winner(token, 30.0, start) == token
        assert winner(token, 45.0, start) != token


@EVERY
@pytest.mark.parametrize("rule", ["coupled", "rejection"])
@pytest.mark.parametrize("name", ["plain", "cold", "top-k", "top-p", "all", "greedy"])
def test_walks(kind: str, name: str, rule: str) -> None:
    draw = torch.Generator().manual_seed(4)
    filters = replace(SAMPLINGS[name], top_k=min(6, SAMPLINGS[name].top_k), rule=rule)
    for sampling in (
        filters,
        replace(filters, repeat_penalty=1.2, frequency_penalty=0.3, repeat_last_n=23),
        replace(filters, presence_penalty=2.0, repeat_last_n=-1, logit_bias={5: -math.inf}),
        replace(filters, repeat_penalty=2.0, logit_bias=dict.fromkeys(range(90), -math.inf)),
        replace(filters, logit_bias={n: -math.inf if n % 3 else 1.5 for n in range(0, 90)}),
    ):
        for trial in range(12):
            candidates = torch.stack([torch.randperm(90, generator=draw)[:12] for _ in range(10)])
            scores = torch.randn(10, 12, 12, generator=draw) * 2
            if trial % 3 == 1:
                scores = scores.round()
            if trial == 5:
                scores[7] = math.nan
            if trial == 8:
                scores[2, :, 3:] = -math.inf
            history = list(range(20)) * 3
            request = DraftRequest(0, history, 4, sampling, Noise(trial))
            lattice = Lattice(candidates, scores)
            found = fast_walk(native.Chooser(kind), lattice, range(5, 9), request)
            expected = walk(lattice, range(5, 9), request)
            assert found.tokens == expected.tokens
            assert len(found.tokens) == (2 if trial == 5 else 4)
            assert found.confidence == pytest.approx(expected.confidence, rel=1e-12)
            assert len(found.q) == (len(found.tokens) if rule == "rejection" else 0)
            for one, other in zip(found.q, expected.q, strict=True):
                same(one, other)


def test_what_a_pass_has_found_is_all_that_greedy_needs() -> None:
    class Untouched:
        shape = (3, 5)

    values = torch.tensor([2.0, math.nan, 1.0])
    logits = Logits.of(Untouched(), (values, torch.tensor([4, 0, 3])))  # type: ignore[arg-type]
    verdict = coupled(logits.rows(Sampling(), (), [4, 0]), [4, 0], Noise(0), 0)
    assert (verdict.accepted, verdict.token) == (1, None)
    assert isinstance(verdict.fault, NumericalError)
    verdict = coupled(logits.rows(Sampling(), (), [1, 0]), [1, 0], Noise(0), 0)
    assert (verdict.accepted, verdict.token, verdict.fault) == (0, 4, None)


def test_only_what_the_extension_can_read_goes_there() -> None:
    logits = torch.zeros(4, 6)
    assert chooser_for(logits) is native_chooser()
    assert chooser_for(logits.double()) is None
    assert chooser_for(logits.bfloat16()) is None
    assert chooser_for(logits[:, :4]) is None
    assert chooser_for(logits.to("meta")) is None


def ulps(found: Sequence[float], exact: Sequence[float]) -> float:
    return max(abs(a - b) / math.ulp(b) for a, b in zip(found, exact, strict=True))


def test_log_is_accurate() -> None:
    rng = np.random.default_rng(0)
    near_one = 1.0 - 2.0 ** -rng.uniform(1, 53, 20_000)
    x = [*(10.0 ** rng.uniform(-300, 300, 20_000)), *rng.random(20_000), *near_one[near_one < 1]]
    x += [math.sqrt(0.5), math.nextafter(math.sqrt(0.5), 0), 2.0**-54, 1.0, 2.0]
    assert ulps([native.log(float(one)) for one in x], [math.log(one) for one in x]) <= 2


@EVERY
def test_exp_is_accurate_also_where_it_is_subnormal(kind: str) -> None:
    chooser = native.Chooser(kind)
    x = [*np.linspace(-745.2, 0.0, 30_011).tolist(), *np.linspace(-1.0, 0.0, 10_007).tolist()]
    assert ulps([chooser.exp(one) for one in x], [math.exp(one) for one in x]) <= 2
    assert [chooser.exp(one) for one in (0.0, -746.0, -1e308, -math.inf)] == [1.0, 0.0, 0.0, 0.0]


def test_all_vectors_give_the_same_bits() -> None:
    choosers = [native.Chooser(kind) for kind in KINDS]
    x = np.linspace(-750.0, 0.0, 20_011).tolist()
    bits = {tuple(chooser.exp(one) for one in x) for chooser in choosers}
    assert len(bits) == 1
    for name, sampling in SAMPLINGS.items():
        if sampling.greedy:
            continue
        for shape in KINDS_OF_ROWS:
            row = row_of(shape, 5003, 6)
            found = [
                chooser.distribution(row.data_ptr(), 5003, NO_CHANGES, filters_of(sampling))
                for chooser in choosers
            ]
            assert len({(ids.tobytes(), p.tobytes()) for (ids, p), *_ in found}) == 1, name


def test_what_is_handed_over_is_checked() -> None:
    chooser, row = native.Chooser(KINDS[0]), torch.zeros(8)
    filters = filters_of(Sampling(temperature=1))
    for ids, biases in (([8], [0.0]), ([-1], [0.0]), ([1, 2], [0.0])):
        changes = (ids, biases, biases, (1.0, 0.0, 0.0))
        with pytest.raises(ValueError, match=r"no such token|for each id"):
            chooser.choose(row.data_ptr(), 8, changes, filters, 0)
    with pytest.raises(ValueError, match="no vectors called"):
        native.Chooser("longest")
