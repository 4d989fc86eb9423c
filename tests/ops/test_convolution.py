"""DFlash2's grouped dynamic convolution against loops over rows, taps and channels."""

import pytest
import torch
from torch import Tensor

from draftwalk.rows import Rows, Rowset
from support.models import CPU, DOUBLE

WIDTH = 12


def random(*shape: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def table(*sizes: int) -> Rows:
    return Rows.lay_out([Rowset(n, [0] * size, 10) for n, size in enumerate(sizes)], CPU)


def oracle(x: Tensor, dynamic: Tensor, base: Tensor, side: int, rows: Rows) -> Tensor:
    taps = base.shape[1]
    groups = dynamic.shape[1] // (2 * taps)
    out = torch.zeros_like(x)
    for span in rows.spans:
        for row in range(span.start, span.stop):
            for tap in range(min(taps, row - span.start + 1)):
                for channel in range(WIDTH):
                    group = channel // (WIDTH // groups)
                    own = dynamic[row, (side * taps + tap) * groups + group]
                    kernel = base[side, tap, channel] + own
                    out[row, channel] += kernel * x[row - tap, channel]
    return out


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("taps", [1, 2, 3, 4])
@pytest.mark.parametrize("groups", [1, 3, 12])
def test_equals_loops(groups: int, taps: int, side: int) -> None:
    rows = table(6, 1, 2, 4)
    x, base = random(rows.size, WIDTH), random(2, taps, WIDTH)
    dynamic = random(rows.size, 2 * taps * groups)
    expected = oracle(x, dynamic, base, side, rows)
    close = {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(DOUBLE.convolve(x, dynamic, base, side, rows), expected, **close)
    residual = random(rows.size, WIDTH, seed=5)
    out = DOUBLE.convolve(x, dynamic, base, side, rows, residual)
    torch.testing.assert_close(out, residual + expected, **close)


def test_the_identity_is_one_at_tap_nought() -> None:
    rows = table(5, 3)
    x, base = random(rows.size, WIDTH), torch.zeros(2, 3, WIDTH, dtype=torch.float64)
    base[:, 0] = 1.0
    nothing = torch.zeros(rows.size, 2 * 3 * 4, dtype=torch.float64)
    for side in (0, 1):
        assert torch.equal(DOUBLE.convolve(x, nothing, base, side, rows), x)
    assert not torch.equal(DOUBLE.convolve(x, nothing, base.flip(1), 0, rows), x)


def test_blocks_in_one_pass_equal_blocks_alone() -> None:
    rows = table(4, 6, 3)
    x, base, dynamic = random(13, WIDTH), random(2, 3, WIDTH), random(13, 2 * 3 * 4)
    together = DOUBLE.convolve(x, dynamic, base, 0, rows)
    for span in rows.spans:
        own = slice(span.start, span.stop)
        alone = DOUBLE.convolve(x[own], dynamic[own], base, 0, table(span.size))
        assert torch.equal(together[own], alone)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_bad_block_stays_by_itself(bad: float) -> None:
    rows = table(4, 6, 3)
    x, base, dynamic = random(13, WIDTH), random(2, 3, WIDTH), random(13, 2 * 3 * 4)
    expected = DOUBLE.convolve(x, dynamic, base, 0, rows)
    x[:4] = bad
    out = DOUBLE.convolve(x, dynamic, base, 0, rows)
    assert torch.equal(out[4:], expected[4:])
    assert not out[:4].isfinite().any()


def test_ancestors_are_parents() -> None:
    """Rows 1 and 2 both follow row 0, row 3 follows 1, row 4 follows 2."""
    parents = torch.tensor([-1, 0, 0, 1, 2])
    branched = Rows.lay_out([Rowset(0, [0] * 5, 0, parents=[-1, 0, 0, 1, 2])], CPU)
    assert torch.equal(branched.parents, parents)
    x, base, dynamic = random(5, WIDTH), random(2, 3, WIDTH), random(5, 2 * 3 * 4)
    out = DOUBLE.convolve(x, dynamic, base, 0, branched)
    for path in ([0, 1, 3], [0, 2, 4]):
        alone = DOUBLE.convolve(x[path], dynamic[path], base, 0, table(3))
        torch.testing.assert_close(out[path], alone, rtol=0, atol=1e-12)
