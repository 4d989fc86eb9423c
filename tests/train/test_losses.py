from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from draftwalk.train.head import Teaching, read_head, restricted_head, whole_head
from draftwalk.train.muon import orthogonal
from draftwalk.train.schedule import Schedule
from draftwalk.train.selector import SelectorParts, read_selector
from draftwalk.train.weighting import d_pace, decay, rarity_of

V, H, P = 50, 8, 1100  # more rows than are taken at once


def rows(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("multiplier", [1.0, 0.5])
def test_the_head_gives_the_gradient_of_cross_entropy(multiplier: float) -> None:
    head, hidden = rows(1, V, H), rows(2, P, H).requires_grad_()
    labels = torch.arange(P) % V
    weights = torch.rand(P, generator=torch.Generator().manual_seed(3))
    out = read_head(hidden, labels, whole_head(head, multiplier), 4)
    (out.loss * weights).sum().backward()
    mine, hidden.grad = hidden.grad, None
    logits = hidden @ head.T * multiplier
    expected = functional.cross_entropy(logits, labels, reduction="none")
    (expected * weights).sum().backward()
    torch.testing.assert_close(out.loss, expected)
    torch.testing.assert_close(mine, hidden.grad)
    assert torch.equal(out.best, logits.topk(4).indices)


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("softcap", [None, 3.0])
def test_the_head_learns_the_targets_distribution(share: float, softcap: float | None) -> None:
    head, hidden, target = rows(1, V, H), rows(2, P, H).requires_grad_(), rows(20, P, H)
    labels = torch.arange(P) % V
    weights = torch.rand(P, generator=torch.Generator().manual_seed(3))
    out = read_head(hidden, labels, whole_head(head), 4, Teaching(target, share, softcap))
    (out.loss * weights).sum().backward()
    mine, hidden.grad = hidden.grad, None
    wanted = target @ head.T
    wanted = wanted if softcap is None else softcap * torch.tanh(wanted / softcap)
    wanted = share * wanted.softmax(-1) + (1 - share) * functional.one_hot(labels, V)
    expected = functional.cross_entropy(hidden @ head.T, wanted, reduction="none")
    (expected * weights).sum().backward()
    torch.testing.assert_close(out.loss, expected)
    torch.testing.assert_close(mine, hidden.grad)
    plain = read_head(hidden, labels, whole_head(head), 4)
    torch.testing.assert_close(out.surprise, plain.loss)
    assert not out.surprise.requires_grad


def test_who_says_what_the_target_says_has_nothing_to_learn_from_it() -> None:
    head, target = rows(1, V, H), rows(20, 40, H)
    columns = restricted_head(head, torch.arange(20), torch.arange(40) % 30, 5, torch.Generator())
    same = target.clone().requires_grad_()
    labels = torch.arange(40) % 30
    read_head(same, labels, columns, 2, Teaching(target, 1.0)).loss.sum().backward()
    assert same.grad is not None
    assert same.grad.abs().max() < 1e-5


def test_a_restricted_head_has_all_labels_and_is_unbiased_in_the_normaliser() -> None:
    head, hidden = rows(4, 400, H) * 0.5, rows(5, 3, H)
    frequent, labels = torch.arange(0, 60), torch.tensor([7, 300, 399])
    whole = (hidden @ head.T).exp().sum(-1)
    estimates = []
    for seed in range(300):
        generator = torch.Generator().manual_seed(seed)
        columns = restricted_head(head, frequent, labels, 80, generator)
        assert set(labels.tolist()) | set(range(60)) <= set(columns.ids.tolist())
        assert columns.ids.tolist() == sorted(columns.ids.tolist())
        assert len(columns.ids) == 62 + 80
        right = (hidden * head[labels]).sum(-1)
        estimates.append((read_head(hidden, labels, columns, 2).loss + right).exp())
    torch.testing.assert_close(torch.stack(estimates).mean(0), whole, rtol=0.03, atol=0.0)


def test_nothing_is_drawn_where_nothing_is_left() -> None:
    head = rows(6, 10, H)
    columns = restricted_head(head, torch.arange(10), torch.tensor([1]), 5, torch.Generator())
    assert columns.ids.tolist() == list(range(10))
    assert not columns.extra.any()


def test_the_selector_scores_candidates_after_the_true_token() -> None:
    embedding, hidden = rows(7, V, H), rows(8, 6, H)
    columns = whole_head(rows(9, V, H))
    parts = SelectorParts(rows(10, 3, H), rows(11, 3, H), rows(12, 3, H))
    candidates = (hidden @ columns.weight.T).topk(4).indices
    before = torch.tensor([3, 4, 5, 6, 7, 8])
    labels = candidates[torch.arange(6), torch.tensor([0, 1, 2, 3, 0, 0])].clone()
    labels[5] = next(n for n in range(V) if n not in candidates[5])
    out = read_selector(parts, embedding, columns, hidden, candidates, before, labels, False)
    tables = embedding @ parts.before.T, embedding @ parts.after.T
    for n in range(6):
        gated = tables[0][before[n]] * (parts.gate @ hidden[n])
        ids = candidates[n]
        scores = columns.weight[ids] @ hidden[n] + tables[1][ids] @ gated
        if n == 5:
            assert out.loss[n] == 0
            assert not out.covered[n]
            assert not out.right[n]
            continue
        place = ids.tolist().index(int(labels[n]))
        torch.testing.assert_close(out.loss[n], -scores.log_softmax(-1)[place])
        assert bool(out.right[n]) == (int(scores.argmax()) == place)
    injected = read_selector(parts, embedding, columns, hidden, candidates, before, labels, True)
    assert injected.loss[5] > 0
    assert not injected.covered[5]  # what is served does not change
    torch.testing.assert_close(injected.loss[:5], out.loss[:5])


def test_decay_is_the_published_one() -> None:
    weights = decay(torch.ones(1, 7, dtype=torch.bool), 4.0, torch.ones(7))
    expected = torch.tensor([[1, 0.78, 0.61, 0.47, 0.37, 0.29, 0.22]])
    torch.testing.assert_close(weights, expected, atol=0.006, rtol=0)


def test_d_pace_counts_the_tokens_that_hang_on_an_offset() -> None:
    learned = torch.tensor([[True, True, True], [True, True, False]])
    chance = torch.tensor([[0.5, 0.25, 0.8], [0.5, 0.25, 0.9]])
    weights = d_pace(-chance.log(), learned, 0.0, torch.ones(3))
    assert weights[0].tolist() == pytest.approx([0.5 + 0.125 + 0.1, 0.125 + 0.1, 0.1])
    assert weights[1].tolist() == pytest.approx([0.5 + 0.125, 0.125, 0.0])
    flat = d_pace(-chance.log(), learned, 1.0, torch.ones(3))
    assert flat[0].tolist() == pytest.approx([3, 2, 1])


@pytest.mark.parametrize("shape", [(8, 30), (30, 8), (16, 16)])
def test_muon_makes_singular_values_alike(shape: tuple[int, int]) -> None:
    values = torch.linalg.svdvals(orthogonal(rows(13, *shape), 5))
    assert values.min() > 0.3
    assert values.max() < 1.3


def test_the_schedule_can_be_extended_before_it_decays() -> None:
    open_end = Schedule(warm_up=10)
    assert open_end.factor(0) == pytest.approx(0.1)
    assert open_end.factor(10_000) == 1.0
    ending = Schedule(warm_up=10, decay_from=100, decay=50, least=0.1)
    assert ending.factor(99) == 1.0
    assert ending.factor(124) == pytest.approx(0.55)
    assert ending.factor(149) == pytest.approx(0.1)
    assert ending.factor(1000) == pytest.approx(0.1)


def test_seldom_offsets_count_for_the_blocks_that_have_them_not() -> None:
    """On average over drawn lengths the weights are those of whole blocks."""
    lengths, loss = (3, 3, 4, 6), torch.rand(1, 5, generator=torch.Generator().manual_seed(2)) * 2
    rarity = rarity_of(lengths, 6)
    assert rarity.tolist() == pytest.approx([1, 1, 2, 4, 4])
    learned = torch.ones(1, 5, dtype=torch.bool)

    def weights(kind: str, rows: int, rarity: torch.Tensor) -> torch.Tensor:
        n = rows - 1
        if kind == "decay":
            return decay(learned[:, :n], 3.0, rarity[:n])[0]
        return d_pace(loss[:, :n], learned[:, :n], 0.5, rarity[:n])[0]

    for kind in ("decay", "d-pace"):
        mean = torch.zeros(5)
        for length in lengths:
            mean[: length - 1] += weights(kind, length, rarity) / len(lengths)
        torch.testing.assert_close(mean, weights(kind, 6, torch.ones(5)))
