"""Training goes through a drafter without pages: the same numbers, and gradients through all."""

import pytest
import torch

from draftwalk.draft import DraftRequest
from draftwalk.ops.memory import KVContext
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.verify.noise import Noise
from support.models import BLOCK, CPU, drafter_checkpoint, hidden_rows, random_drafter, target

CONTEXT = 9


class Contexts:
    """Each layer's context as plain tensors, of one sequence."""

    def __init__(self, layers: int) -> None:
        self.layers = [KVContext() for _ in range(layers)]

    def layer(self, index: int) -> KVContext:
        return self.layers[index]


@pytest.mark.parametrize("selector", [True, False])
@pytest.mark.parametrize("sliding", [True, False])
def test_plain_tensors_equal_pages(selector: bool, sliding: bool) -> None:
    of = target("qwen3")
    types = ("sliding_attention", "full_attention") if sliding else ("full_attention",) * 2
    drafter = random_drafter(drafter_checkpoint(160, 48, (0, 1), selector, types), of)
    features = torch.randn(CONTEXT, 96, dtype=torch.float64, requires_grad=True)

    rows = Rows.lay_out([Rowset(0, [0] * CONTEXT, 0, "none")], CPU)
    drafter.state.open(0)
    with torch.no_grad():
        drafter.observe(rows, features, {0: CONTEXT})
        history = [0] * CONTEXT + [7]
        paged = hidden_rows(drafter, [DraftRequest(0, history, 1, Sampling(), Noise(0))])

    backbone = drafter._backbone
    context = Contexts(len(types))
    injected = backbone.inject(context, rows, features)
    context.layers = [KVContext({0: (kv.k, kv.v)}) for kv in injected]  # type: ignore[union-attr]
    block = Rows.lay_out([Rowset(0, [7] + [3] * (BLOCK - 1), CONTEXT, "drafted")], CPU)
    plain = backbone.forward(context, block)[block.wanted]

    torch.testing.assert_close(plain, paged, rtol=0, atol=1e-12)
    plain.square().sum().backward()
    assert features.grad is not None
    assert (features.grad.abs().sum(-1) > 0).all()
