"""The head while learning: fewer columns, and its gradient taken on the way forward.

The target's head is frozen, so all that is learned through it is the gradient at its input, and
that is softmax(logits) times the head less the right token's row. Taking it while the logits are
there means that no logits are kept, and that each row's weight may be decided afterwards, from the
losses themselves.

A restricted head has the columns of frequent tokens, of every right token of the update, and some
drawn from the rest; a drawn column stands for many, so its logit gains log(1 / chance of being
drawn) in the normaliser (sampled softmax, Bengio and Senécal 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

_ROWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Columns:
    """The part of a head that an update uses.

    Attributes:
        ids: [C] token ids, ascending.
        weight: [C, H] their rows of the head.
        extra: [C] what each logit gains in the normaliser.
        multiplier: factor on logits.
    """

    ids: Tensor
    weight: Tensor
    extra: Tensor
    multiplier: float = 1.0

    def at(self, tokens: Tensor) -> Tensor:
        """Columns of tokens, which must be among the ids."""
        return torch.searchsorted(self.ids, tokens)


def whole_head(weight: Tensor, multiplier: float = 1.0) -> Columns:
    """All columns of a head [V, H]."""
    ids = torch.arange(len(weight), device=weight.device)
    return Columns(ids, weight, weight.new_zeros(len(weight)), multiplier)


def restricted_head(
    weight: Tensor,
    frequent: Tensor,
    labels: Tensor,
    drawn: int,
    generator: torch.Generator,
    multiplier: float = 1.0,
) -> Columns:
    """Columns for one update.

    Args:
        weight: [V, H] the head.
        frequent: ids that are always there.
        labels: right tokens of the update, in any shape.
        drawn: how many of the other tokens are drawn.
        generator: draws them.
        multiplier: factor on logits.
    """
    needed = torch.zeros(len(weight), dtype=torch.bool)
    needed[frequent] = True
    needed[labels.reshape(-1)] = True
    rest = (~needed).nonzero()[:, 0]
    chosen = rest[torch.randperm(len(rest), generator=generator)[:drawn]]
    extra = torch.zeros(len(weight))
    if len(chosen):
        extra[chosen] = torch.log(torch.tensor(len(rest) / len(chosen)))
    needed[chosen] = True
    ids = needed.nonzero()[:, 0].to(weight.device)
    return Columns(ids, weight[ids], extra.to(weight.device)[ids], multiplier)


@dataclass(frozen=True, slots=True)
class HeadOutput:
    """What a head says of P rows.

    Attributes:
        loss: [P] cross entropies, with a gradient.
        best: [P, K] ids of the greatest logits, descending.
    """

    loss: Tensor
    best: Tensor


def read_head(hidden: Tensor, labels: Tensor, columns: Columns, count: int) -> HeadOutput:
    """Cross entropies of rows and their best candidates.

    Args:
        hidden: [P, H] final-normed rows.
        labels: [P] right tokens, all among the columns.
        columns: the head.
        count: K.
    """
    loss, best = _Head.apply(hidden, columns.at(labels), columns, count)  # type: ignore[no-untyped-call]
    return HeadOutput(loss, columns.ids[best])


class _Head(torch.autograd.Function):
    """Cross entropy whose gradient is ready when its value is."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden: Tensor, targets: Tensor, columns: Columns, count: int
    ) -> tuple[Tensor, Tensor]:
        losses, bests, gradients = [], [], []
        for start in range(0, len(hidden), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            loss, best, gradient = _forward(hidden[rows], targets[rows], columns, count)
            losses.append(loss)
            bests.append(best)
            gradients.append(gradient)
        ctx.save_for_backward(torch.cat(gradients))
        best = torch.cat(bests)
        ctx.mark_non_differentiable(best)
        return torch.cat(losses), best

    @staticmethod
    def backward(ctx: FunctionCtx, weights: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return weights[:, None] * gradient, None, None, None


def _forward(
    hidden: Tensor, targets: Tensor, columns: Columns, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    logits = hidden @ columns.weight.T
    if columns.multiplier != 1.0:
        logits *= columns.multiplier
    best = logits.topk(count, dim=-1).indices
    logits += columns.extra
    right = logits.gather(1, targets[:, None])[:, 0]
    total = logits.logsumexp(-1)
    chances = logits.sub_(total[:, None]).exp_()
    chances[torch.arange(len(targets), device=targets.device), targets] -= 1
    gradient = chances @ columns.weight
    if columns.multiplier != 1.0:
        gradient *= columns.multiplier
    return total - right, best, gradient
