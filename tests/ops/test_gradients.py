"""Every operation that training uses has the gradient that finite differences have."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from draftwalk.ops import HeadNorm, Linear
from draftwalk.ops.torch import DenseMatrix
from draftwalk.rows import Rows, Rowset
from draftwalk.target.rope import rope_table
from support.models import CPU, DOUBLE

H, F, V, R, K = 6, 5, 9, 3, 4
ROWS = Rows.lay_out([Rowset(0, [1, 3, 3], 5), Rowset(1, [2, 3], 0)], CPU)
T, M = ROWS.size, 3  # rows, and rows but anchors
ROPE = DOUBLE.rope(*rope_table(10.0 ** -torch.arange(2, dtype=torch.float64), 20))
CANDIDATES = torch.tensor([[0, 4, 7, 1], [2, 4, 8, 6], [5, 0, 3, 7]])


def dense(weight: Tensor) -> Linear:
    return Linear(DenseMatrix(weight))


def attention_inputs(x: Tensor, weight: Tensor) -> Tensor:
    return DOUBLE.rotate(x, 2, HeadNorm(weight, 1e-6), ROPE, ROWS)


def selector(unary: Tensor, gate: Tensor, before: Tensor, after: Tensor) -> Tensor:
    tables = DenseMatrix(before), DenseMatrix(after)
    return DOUBLE.selector(unary, CANDIDATES, gate, tables, ROWS)


CASES: dict[str, tuple[Callable[..., object], list[tuple[int, ...]]]] = {
    "embed": (lambda e: DOUBLE.embed(DenseMatrix(e), ROWS, 2.0), [(V, H)]),
    "norm": (lambda x, w: DOUBLE.norm(x, w, 1e-6), [(T, H), (H,)]),
    "norm, residual": (lambda x, w, r: DOUBLE.norm(x, w, 1e-6, r), [(T, H), (H,), (T, H)]),
    "linear": (
        lambda x, a, b, c: DOUBLE.linear(x, (Linear(DenseMatrix(a), b), dense(c))),
        [(T, H), (F, H), (F,), (3, H)],
    ),
    "linear, residual": (
        lambda x, w, r: DOUBLE.linear_residual(x, dense(w), r),
        [(T, H), (F, H), (T, F)],
    ),
    "gated silu": (
        lambda x, g, u: DOUBLE.gated(x, dense(g), dense(u), "silu"),
        [(T, H), (F, H), (F, H)],
    ),
    "gated gelu": (
        lambda x, g, u: DOUBLE.gated(x, dense(g), dense(u), "gelu_tanh"),
        [(T, H), (F, H), (F, H)],
    ),
    "rotate": (attention_inputs, [(T, 8), (4,)]),
    "rotate without norm": (lambda x: DOUBLE.rotate(x, 2, None, ROPE, ROWS), [(T, 8)]),
    "convolve": (
        lambda x, d, b, r: DOUBLE.convolve(x, d, b, 1, ROWS, r),
        [(T, H), (T, 2 * 3 * 2), (2, 3, H), (T, H)],
    ),
    "gather": (lambda x: DOUBLE.gather(x, torch.tensor([3, 0, 3])), [(T, H)]),
    "head": (lambda x, w: DOUBLE.head(x, DenseMatrix(w), 0.3, 2.0), [(T, H), (V, H)]),
    "top-k": (lambda x: DOUBLE.top_k(x, K)[0], [(T, V)]),
    "selector": (selector, [(M, K), (M, R), (V, R), (V, R)]),
    "product": (
        lambda e, f: DOUBLE.product(DenseMatrix(e), DenseMatrix(f)).weight,  # type: ignore[attr-defined]
        [(V, H), (R, H)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    function, shapes = CASES[name]
    draw = torch.Generator().manual_seed(7)
    inputs = [
        torch.randn(*shape, generator=draw, dtype=torch.float64, requires_grad=True)
        for shape in shapes
    ]
    assert gradcheck(function, inputs)


def test_the_selector_is_what_the_formula_says() -> None:
    draw = torch.Generator().manual_seed(8)
    unary, gate = (torch.randn(M, n, generator=draw, dtype=torch.float64) for n in (K, R))
    before, after = (torch.randn(V, R, generator=draw, dtype=torch.float64) for _ in range(2))
    scores = selector(unary, gate, before, after)
    predecessors = [[1] * K, CANDIDATES[0].tolist(), [2] * K]  # the anchors are 1 and 2
    for row in range(M):
        for p in range(K):
            for c in range(K):
                factors = before[predecessors[row][p]] * gate[row] * after[CANDIDATES[row, c]]
                expected = unary[row, c] + factors.sum()
                torch.testing.assert_close(scores[row, p, c], expected, rtol=0, atol=1e-12)
