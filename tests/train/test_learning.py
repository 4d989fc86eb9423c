from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from draftwalk.draft import DraftRequest
from draftwalk.draft.load import build_drafter
from draftwalk.models import open_model
from draftwalk.ops.torch import TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.target.load import build_target
from draftwalk.train.anchors import Lesson, anchor_places, blocks_at, draw_anchors
from draftwalk.train.head import whole_head
from draftwalk.train.objective import Losses, Objective, losses
from draftwalk.train.shape import Shape, new_config
from draftwalk.train.shards import Answer
from draftwalk.verify.noise import Noise
from support.models import CPU, FIXTURES, MadeCheckpoint, hidden_rows
from support.training import SHAPE, TARGET, answer, grad_of, learner, parts

SHAPES = (
    SHAPE,
    replace(SHAPE, dflash2=False),
    replace(SHAPE, causal=False),
    replace(SHAPE, window=5),
    replace(SHAPE, window=3, causal=False, kernel=3),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_computes_what_the_engine_computes(shape: Shape) -> None:
    """Blocks learned together are what the engine's drafter says at each anchor."""
    _, tensors = parts(shape)
    ops = TorchOperations(CPU, torch.float32)
    target = build_target(open_model(FIXTURES / "targets" / TARGET), ops)
    settings = new_config(shape, open_model(FIXTURES / "targets" / TARGET), target.depth)
    made = MadeCheckpoint(settings, tensors)
    drafter = build_drafter(made, ops, target.tables, target.depth, 256)
    one = answer(1)
    places = torch.tensor([7, 8, 20, 33, 38])
    learned = learner(shape).hidden([Lesson(one, blocks_at(one, places, shape.block))])
    drafter.state.open(0)
    at = 0
    for n, place in enumerate(places.tolist()):
        rows = Rows.lay_out([Rowset(0, [0] * (place - at), at)], CPU)
        drafter.observe(rows, one.features[at:place].float(), {0: place - at})
        at = place
        request = DraftRequest(0, one.tokens[: place + 1].tolist(), 5, Sampling(), Noise(0))
        hidden = hidden_rows(drafter, [request])
        mine = learned[n * (shape.block - 1) : (n + 1) * (shape.block - 1)]
        torch.testing.assert_close(mine, hidden, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nothing_leaks_from_the_future_or_from_other_blocks(shape: Shape) -> None:
    """A changed token, with its features, changes no bit of any block before it."""
    drafter = learner(shape)
    one = answer(2)
    places = torch.tensor([8, 15, 16, 30])
    blocks = blocks_at(one, places, shape.block)
    before = drafter.hidden([Lesson(one, blocks)]).view(4, shape.block - 1, -1)
    changed_at = 16  # the third block's anchor
    tokens, features = one.tokens.clone(), one.features.clone()
    tokens[changed_at] = (tokens[changed_at] + 1) % 150 + 5
    features[changed_at] += 1
    other = Answer(one.facts, tokens, one.learned, features)
    after = drafter.hidden([Lesson(other, blocks_at(other, places, shape.block))])
    after = after.view(4, shape.block - 1, -1)
    assert torch.equal(before[:2], after[:2])
    assert not torch.equal(before[2], after[2])  # its own anchor
    assert torch.equal(before[3], after[3]) == (shape.window is not None)  # behind it, in reach


def test_losses_of_other_blocks_stay_bit_equal() -> None:
    drafter, one = learner(), answer(3)
    places = torch.tensor([9, 12, 25])
    columns = whole_head(drafter.head)

    def by_block(of: Answer) -> torch.Tensor:
        blocks = blocks_at(of, places, 6)
        return losses(drafter, [Lesson(of, blocks)], columns, Objective(), inject=False).head

    tokens = one.tokens.clone()
    tokens[30] = (tokens[30] + 1) % 150 + 5  # a label of the last block only
    first, second = by_block(one), by_block(replace(one, tokens=tokens))
    assert torch.equal(first[:2], second[:2])
    assert not torch.equal(first[2], second[2])


def test_answers_learned_together_are_learned_as_each_alone() -> None:
    """Of different lengths, and with the target's own distribution."""
    drafter = learner()
    columns = whole_head(drafter.head)
    lessons = []
    for number, length in ((6, 40), (7, 25), (8, 33)):
        one = answer(number, length, taps=3)
        last, one = one.features[:, 96:], replace(one, features=one.features[:, :96])
        lessons.append(Lesson(one, blocks_at(one, anchor_places(one)[::3], 6), last))

    def learned(part: list[Lesson]) -> tuple[Losses, dict[str, torch.Tensor]]:
        found = losses(drafter, part, columns, Objective(), inject=False)
        found.total.backward()
        grads = grad_of(drafter)
        for value in drafter.parameters.values():
            value.grad = None
        return found, grads

    together, grads = learned(lessons)
    alone = [learned([lesson]) for lesson in lessons]
    head = torch.cat([found.head for found, _ in alone])
    torch.testing.assert_close(together.head, head, atol=1e-5, rtol=1e-5)
    assert torch.equal(together.learned, torch.cat([found.learned for found, _ in alone]))
    for name, grad in grads.items():
        parts = torch.stack([one[name] for _, one in alone]).sum(0)
        torch.testing.assert_close(grad, parts, atol=1e-4, rtol=1e-4)


def test_gradients_reach_every_parameter() -> None:
    drafter, one = learner(), answer(4)
    blocks = blocks_at(one, anchor_places(one), 6)
    lessons = [Lesson(one, blocks)]
    losses(drafter, lessons, whole_head(drafter.head), Objective(), True).total.backward()
    grads = grad_of(drafter)
    assert grads.keys() == drafter.parameters.keys()
    assert all(bool(grad.isfinite().all()) and bool(grad.any()) for grad in grads.values())


def test_anchors_stand_where_a_token_follows() -> None:
    one = answer(5, length=12, prompt=4)
    assert anchor_places(one).tolist() == list(range(4, 11))
    learned = one.learned.clone()
    learned[7:9] = False  # a user's turn in between
    two = replace(one, learned=learned)
    assert anchor_places(two).tolist() == [4, 5, 9, 10]
    blocks = blocks_at(two, torch.tensor([4, 9]), 6)
    assert blocks.learned.tolist() == [
        [True, True, False, False, False],
        [True, True, False, False, False],
    ]
    assert blocks.labels[0, :2].tolist() == one.tokens[5:7].tolist()
    assert blocks.before[0, :2].tolist() == one.tokens[4:6].tolist()


def test_drawn_anchors_are_ascending_and_different() -> None:
    one = answer(6)
    drawn = draw_anchors(one, 10, torch.Generator().manual_seed(3))
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    assert len(drawn) == 10
    assert len(draw_anchors(one, 1000, torch.Generator())) == len(anchor_places(one))
