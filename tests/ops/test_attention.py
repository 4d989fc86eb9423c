"""Attention against loops over rows, heads and keys, through pages and with plain tensors."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from draftwalk.ops import Visibility
from draftwalk.ops.memory import KVTensors
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from support.models import CPU, DOUBLE, new_pages, store

N, G, D = 4, 2, 6  # query heads, key/value heads, values
SCALE = 0.4
SPANS = {3: (70, 5), 0: (0, 4), 1: (62, 3), 2: (128, 1)}  # slot: context, rows

CASES = [
    Visibility(SCALE, causal, window, softcap)
    for causal, window, softcap in itertools.product(
        (True, False), (None, 1, 3, 64, 65), (None, 0.5)
    )
]


class Inputs:
    """Random contexts and rows of several sequences, and their table."""

    def __init__(self, seed: int = 0) -> None:
        draw = torch.Generator().manual_seed(seed)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        self.contexts = {slot: (random(n, G, D), random(n, G, D)) for slot, (n, _) in SPANS.items()}
        self.rows = Rows.lay_out(
            [Rowset(slot, [0] * size, n) for slot, (n, size) in SPANS.items()], CPU
        )
        self.q = random(self.rows.size, N, D)
        self.k, self.v = random(self.rows.size, G, D), random(self.rows.size, G, D)
        self.sinks = random(N)

    @property
    def plain(self) -> KVTensors:
        return KVTensors(self.contexts, self.k, self.v)

    def through_pages(self, sees: Visibility) -> Tensor:
        """What a state gives that was filled in chunks."""
        state = new_pages(1, G, D, sees.window)
        for slot, (k, v) in self.contexts.items():
            state.open(slot)
            for start in range(0, len(k), 50):
                part = slice(start, start + 50)
                chunk = Rows.lay_out([Rowset(slot, [0] * len(k[part]), start)], CPU)
                with pass_over(state, chunk) as kept:
                    store(k[part], v[part], state.layer(0), chunk)
                    kept[slot] = chunk.size
        with pass_over(state, self.rows):
            store(self.k, self.v, state.layer(0), self.rows)
            return DOUBLE.attend(self.q, state.layer(0), self.rows, sees)


def oracle(inputs: Inputs, sees: Visibility) -> Tensor:
    """[T, N * D], one number at a time."""
    out = torch.zeros(inputs.rows.size, N, D, dtype=torch.float64)
    for span in inputs.rows.spans:
        own = slice(span.start, span.stop)
        keys = torch.cat([inputs.contexts[span.sequence][0], inputs.k[own]])
        values = torch.cat([inputs.contexts[span.sequence][1], inputs.v[own]])
        for row, head in itertools.product(range(span.size), range(N)):
            at, group = span.context + row, head // (N // G)
            weights = []
            for key in range(len(keys)):
                score = SCALE * float(inputs.q[span.start + row, head] @ keys[key, group])
                if sees.softcap is not None:
                    score = sees.softcap * math.tanh(score / sees.softcap)
                hidden = sees.causal and key > at
                if sees.window is not None:
                    hidden |= abs(at - key) >= sees.window
                weights.append(0.0 if hidden else math.exp(score))
            total = sum(weights)
            if sees.sinks is not None:
                total += math.exp(float(sees.sinks[head]))
            for weight, value in zip(weights, values[:, group], strict=True):
                out[span.start + row, head] += weight / total * value
    return out.flatten(1)


def near(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("sees", CASES, ids=str)
def test_plain_and_paged_equal_loops(sees: Visibility) -> None:
    inputs = Inputs()
    expected = oracle(inputs, sees)
    near(DOUBLE.attend(inputs.q, inputs.plain, inputs.rows, sees), expected)
    near(inputs.through_pages(sees), expected)


@pytest.mark.parametrize("causal", [True, False])
def test_sinks_take_their_share(causal: bool) -> None:
    inputs = Inputs(1)
    sees = Visibility(SCALE, causal, 20, 2.0, inputs.sinks)
    near(DOUBLE.attend(inputs.q, inputs.plain, inputs.rows, sees), oracle(inputs, sees))
    near(inputs.through_pages(sees), oracle(inputs, sees))
    without = Visibility(SCALE, causal, 20, 2.0)
    assert not torch.allclose(oracle(inputs, sees), oracle(inputs, without))


@pytest.mark.parametrize("sinks", [True, False])
def test_gradients_reach_both_parts(sinks: bool) -> None:
    """Of the context as of the rows, through softcap, window and sinks."""
    draw = torch.Generator().manual_seed(2)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64, requires_grad=True)

    rows = Rows.lay_out([Rowset(0, [0] * 3, 4), Rowset(1, [0] * 2, 0)], CPU)
    shares = random(N) if sinks else None

    def attend(q: Tensor, k: Tensor, v: Tensor, ck: Tensor, cv: Tensor, *s: Tensor) -> Tensor:
        nothing = torch.zeros(0, G, D, dtype=torch.float64)
        kv = KVTensors({0: (ck, cv), 1: (nothing, nothing)}, k, v)
        return DOUBLE.attend(q, kv, rows, Visibility(SCALE, False, 6, 1.5, s[0] if s else None))

    parts = [random(5, N, D), *(random(5, G, D) for _ in range(2))]
    parts += [random(4, G, D), random(4, G, D)]
    assert torch.autograd.gradcheck(attend, (*parts, shares) if sinks else tuple(parts))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_a_row_cannot_see_does_not_harm_it(causal: bool, bad: float) -> None:
    """Nought times not-a-number is no nought."""
    inputs, sound = Inputs(), Inputs()
    for span in inputs.rows.spans:
        inputs.k[span.stop - 1] = bad
        inputs.v[span.stop - 1] = bad
    sees = Visibility(SCALE, causal, 3)
    out, expected = (DOUBLE.attend(one.q, one.plain, one.rows, sees) for one in (inputs, sound))
    for span in inputs.rows.spans:
        for row in range(span.start, span.stop):
            touched = row == span.stop - 1 or (not causal and row > span.stop - 4)
            assert bool(out[row].isnan().all()) == touched
            if not touched:
                near(out[row], expected[row])


def test_half_precision_sums_in_single() -> None:
    """Weights are rounded once: many equal ones still sum to one."""
    rows = Rows.lay_out([Rowset(0, [0], 5000)], CPU)
    kv = KVTensors(
        {0: (torch.zeros(5000, 1, D).bfloat16(), torch.ones(5000, 1, D).bfloat16())},
        torch.zeros(1, 1, D).bfloat16(),
        torch.ones(1, 1, D).bfloat16(),
    )
    out = DOUBLE.attend(torch.zeros(1, 1, D).bfloat16(), kv, rows, Visibility(1.0))
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, torch.ones_like(out), rtol=0.02, atol=0)
