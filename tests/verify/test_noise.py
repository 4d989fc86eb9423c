"""The counter-based noise: same integers as a plain reference, disjoint streams, no structure."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from draftwalk.verify import Noise, Purpose
from support.toy_chain import chi_square_score

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
SCALAR = [Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL]


def splitmix(state: int, index: int) -> int:
    """Output number `index` of SplitMix64 started at `state`, with unbounded Python integers."""
    z = (state + (index + 1) * GOLDEN) % 2**64
    z = ((z ^ (z // 2**30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z // 2**27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z // 2**31)


def reference(seed: int, choice: int, position: int, purpose: int, token: int | None) -> float:
    index = choice * 2**42 + purpose * 2**40 + position
    z = splitmix(splitmix(seed, 0), index)
    z = z if token is None else splitmix(z, token)
    return (z // 2**11 or 0.5) / 2**53


def test_splitmix_reference_gives_the_published_first_outputs() -> None:
    # The sequence for state 0 is printed in several independent test suites of SplitMix64.
    assert [splitmix(0, i) for i in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


@pytest.mark.parametrize("device", DEVICES)
@given(
    seed=st.integers(0, MASK),
    choice=st.integers(0, 2**22 - 1),
    position=st.integers(0, 2**40 - 1),
    tokens=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9),
)
def test_every_number_equals_the_reference(
    device: str, seed: int, choice: int, position: int, tokens: list[int]
) -> None:
    noise = Noise(seed, choice)
    got = noise.uniforms(position, torch.tensor(tokens, device=device)).tolist()
    assert got == [reference(seed, choice, position, Purpose.TOKEN, t) for t in tokens]
    for purpose in SCALAR:
        expected = reference(seed, choice, position, purpose, None)
        assert noise.uniform(position, purpose) == expected


def test_a_number_does_not_depend_on_its_company() -> None:
    noise, ids = Noise(7), torch.randperm(50_000)[:4097]
    together = noise.uniforms(5, ids)
    assert torch.equal(together[100:], noise.uniforms(5, ids[100:]))
    assert torch.equal(together[::3], noise.uniforms(5, ids[::3]))
    assert ids.unique().numel() == 4097, "the argument is left as it was"


def test_keys_are_disjoint() -> None:
    """No two of (position, purpose, choice) share a key, and id streams do not overlap either."""
    for seed in (0, 1, MASK):
        keys = {
            (position, purpose, choice): Noise(seed, choice).key(position, purpose)
            for position in range(1001)
            for purpose in Purpose
            for choice in range(8)
        }
        assert len(set(keys.values())) == len(keys)
        # Stream k visits k + (id + 1) * GOLDEN: divide by GOLDEN to see how far apart they start.
        inverse = pow(GOLDEN, -1, 2**64)
        starts = sorted(key * inverse % 2**64 for key in keys.values())
        gaps = [b - a for a, b in zip(starts, [*starts[1:], starts[0] + 2**64], strict=True)]
        assert min(gaps) > 2**24, "more than any vocabulary"


def test_uniforms_stay_inside_the_open_interval() -> None:
    class Extreme(Noise):
        def key(self, position: int, purpose: Purpose) -> int:
            return (0, MASK)[position]

    assert Extreme(0).uniform(0, Purpose.ACCEPT) == 2.0**-54
    assert Extreme(0).uniform(1, Purpose.ACCEPT) == 1 - 2.0**-53
    u = Noise(3).uniforms(0, torch.arange(1_000_000))
    assert 0 < float(u.min()) < 1e-5
    assert 1 - 1e-5 < float(u.max()) < 1


def test_exponentials_are_those_of_the_uniforms() -> None:
    ids = torch.arange(10_000)
    u, e = Noise(3).uniforms(9, ids), Noise(3).exponentials(9, ids)
    exact = torch.tensor([-math.log1p(-x) for x in u.tolist()], dtype=torch.float64)
    assert torch.allclose(e, exact, rtol=1e-14, atol=0)
    assert abs(float(e.mean()) - 1) < 4 / 100


def grid(seeds: range, positions: range, ids: int) -> np.ndarray:
    every = torch.arange(ids)
    return np.stack(
        [[Noise(s).uniforms(p, every).numpy() for p in positions] for s in seeds]
    )  # [seed, position, id]


def pair_score(a: np.ndarray, b: np.ndarray, cells: int = 16) -> float:
    """Chi-square score of pairs on a grid of cells: sees any dependence of two numbers."""
    counts, _, _ = np.histogram2d(a.ravel(), b.ravel(), bins=cells, range=[[0, 1], [0, 1]])
    return chi_square_score(counts, np.full_like(counts, a.size / cells**2))


def test_uniforms_have_no_visible_structure() -> None:
    u = grid(range(16), range(100, 164), 512)
    counts, _ = np.histogram(u, bins=1024, range=(0, 1))
    assert abs(chi_square_score(counts, np.full(1024, u.size / 1024))) < 4
    assert abs(u.mean() - 0.5) < 4 * math.sqrt(1 / 12 / u.size)
    neighbours = {
        "seeds": (u[:-1], u[1:]),
        "positions": (u[:, :-1], u[:, 1:]),
        "ids": (u[..., :-1], u[..., 1:]),
        "seed against position": (u[:-1, 1:], u[1:, :-1]),
        "position against id": (u[:, :-1, 1:], u[:, 1:, :-1]),
        "seed against id": (u[:-1, :, 1:], u[1:, :, :-1]),
    }
    for name, (a, b) in neighbours.items():
        assert abs(pair_score(a, b)) < 4, name
        correlation = float(np.corrcoef(a.ravel(), b.ravel())[0, 1])
        assert abs(correlation) < 4 / math.sqrt(a.size), name


def test_the_statistics_can_fail() -> None:
    u = grid(range(4), range(8), 512)
    assert pair_score(u[:, :-1], 0.9 * u[:, :-1] + 0.1 * u[:, 1:]) > 10
    counts, _ = np.histogram(u**1.2, bins=64, range=(0, 1))
    assert chi_square_score(counts, np.full(64, u.size / 64)) > 10


def test_scalar_draws_have_no_visible_structure() -> None:
    u = np.array(
        [[[Noise(s).uniform(p, w) for w in SCALAR] for p in range(256)] for s in range(64)]
    )  # [seed, position, purpose]
    counts, _ = np.histogram(u, bins=256, range=(0, 1))
    assert abs(chi_square_score(counts, np.full(256, u.size / 256))) < 4
    for a, b in ((u[:-1], u[1:]), (u[:, :-1], u[:, 1:]), (u[..., :-1], u[..., 1:])):
        assert abs(pair_score(a, b, 8)) < 4
    choices = np.array(
        [[Noise(1, c).uniform(p, Purpose.DRAFT) for p in range(128)] for c in range(64)]
    )
    assert abs(pair_score(choices[:-1], choices[1:], 8)) < 4
