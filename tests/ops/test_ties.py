"""Which of equal logits is taken: the one of the lowest id, always."""

import random

import pytest
import torch

from support.models import DOUBLE

V = 40


def ranked(row: list[float]) -> list[int]:
    return sorted(range(len(row)), key=lambda token: (-row[token], token))


@pytest.mark.parametrize("k", [1, 2, 5, V - 1, V])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_top_k_of_many_equal_values(k: int, dtype: torch.dtype) -> None:
    rng = random.Random(k)
    rows = [[float(rng.randrange(levels)) for _ in range(V)] for levels in (1, 2, 3, 5, 9, 100)]
    rows.append([-float("inf")] * V)
    rows.append([-float("inf")] * (V - 3) + [1.0, 1.0, 2.0])
    rows.append([float("inf") if n % 7 == 3 else 0.0 for n in range(V)])
    logits = torch.tensor(rows, dtype=dtype)
    values, ids = DOUBLE.top_k(logits, k)
    assert ids.tolist() == [ranked(row)[:k] for row in rows]
    assert torch.equal(values, logits.gather(1, ids))
    for n in range(len(rows)):  # and the same in any company
        assert torch.equal(DOUBLE.top_k(logits[n : n + 1], k)[1], ids[n : n + 1])


def test_top_k_passes_over_what_is_no_number() -> None:
    row = torch.tensor([[1.0, torch.nan, 3.0, torch.nan, 2.0]], dtype=torch.float64)
    assert DOUBLE.top_k(row, 3)[1].tolist() == [[2, 4, 0]]


def test_argmax_of_many_equal_values() -> None:
    rng = random.Random(1)
    rows = [[float(rng.randrange(levels)) for _ in range(V)] for levels in (1, 2, 3, 5, 100) * 3]
    rows.append([-0.0, 0.0, -0.0])
    rows[-1] += [-1.0] * (V - 3)
    assert DOUBLE.argmax(torch.tensor(rows))[1].tolist() == [ranked(row)[0] for row in rows]
