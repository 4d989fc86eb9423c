"""Rows that are asked for one by one are those that are made together, on either path."""

import math
from collections.abc import Iterator

import pytest
import torch

from draftwalk.errors import NumericalError
from draftwalk.settings import Sampling
from draftwalk.verify import Logits, Noise, Support, coupled, rejection, supports
from draftwalk.verify.verdict import Row

SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.9),
    Sampling(temperature=0.9, top_k=5, top_p=0.9),
    Sampling(temperature=0.9, frequency_penalty=0.7, repeat_last_n=4),
    Sampling(repeat_penalty=1.4, logit_bias={3: 2.0, 4: -math.inf}),
]
HISTORY, DRAFT = [1, 2, 2, 5], [2, 2, 7]


def logits(dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(4, 30, generator=torch.Generator().manual_seed(3)).to(dtype)


def same(one: Support, other: Support) -> None:
    assert torch.equal(one.ids, other.ids)
    torch.testing.assert_close(one.p, other.p, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_whether_the_draft_is_known_or_grows(sampling: Sampling, dtype: torch.dtype) -> None:
    values = logits(dtype)
    expected = supports(values, sampling, HISTORY, DRAFT)
    for row, other in zip(Logits(values).rows(sampling, HISTORY, DRAFT), expected, strict=True):
        same(row.support(), other)
    growing: list[int] = []
    for token, row, other in zip(
        [*DRAFT, 0], Logits(values).rows(sampling, HISTORY, growing), expected, strict=True
    ):
        same(row.support(), other)
        assert row.race(Noise(4), 6) == other.race(Noise(4), 6)
        growing.append(token)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("known", [True, False])
def test_greedy_with_and_without_what_a_pass_has_found(dtype: torch.dtype, known: bool) -> None:
    values = logits(dtype)
    values[2, 9] = math.nan
    text = values[:2].argmax(-1).tolist()
    one = Logits.of(values, (values.amax(-1), values.argmax(-1)) if known else None)
    unsaid = next(token for token in range(30) if token not in text)
    for right in range(3):
        draft = [*text[:right], *[unsaid] * (3 - right)]
        rows = [Logits.rows(part, Sampling(), HISTORY, draft) for part in (one, one.part(0, 4))]
        verdicts = [coupled(rows[0], draft, Noise(0), 4)]
        q = [Support.certain(token) for token in draft]
        verdicts.append(rejection(rows[1], draft, q, Noise(0), 4))
        for verdict in verdicts:
            assert verdict.accepted == right
            assert verdict.token == (text[right] if right < 2 else None)
            assert isinstance(verdict.fault, NumericalError) == (right == 2)
    assert coupled(one.part(1, 2).rows(Sampling(), HISTORY, []), [], Noise(0), 4).token == text[1]


def test_rows_behind_the_end_of_a_step_are_not_looked_at() -> None:
    sampling = Sampling(temperature=1.0)
    for seed in range(20):
        seen: list[Row] = []

        def watched(into: list[Row]) -> Iterator[Row]:
            for row in Logits(logits(torch.float32)).rows(sampling, HISTORY, DRAFT):
                into.append(row)
                yield row

        verdict = coupled(watched(seen), DRAFT, Noise(seed), 4)
        assert len(seen) == verdict.accepted + 1 < 4
