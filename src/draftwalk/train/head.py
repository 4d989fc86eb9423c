"""The head while learning: fewer columns, and its gradient taken on the way forward.

The target's head is frozen, so all that is learned through it is the gradient at its input, and
that is softmax(logits) times the head less the right token's row. Taking it while the logits are
there means that no logits are kept, and that each row's weight may be decided afterwards, from the
losses themselves.

A restricted head has the columns of frequent tokens, of every right token of the update, and some
drawn from the rest; a drawn column stands for many, so its logit gains log(1 / chance of being
drawn) in the normaliser (sampled softmax, Bengio and Senécal 2008).

Beside its token, rows may learn the target's whole distribution: what it might have said as well
tells more than one token does (distillation, Hinton, Vinyals and Dean 2015).
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
class Teaching:
    """What rows learn beside the right token.

    Attributes:
        hidden: [P, H] the target's own final-normed rows, from which it chose the right tokens.
        share: of its distribution in what is learned; the right token has the rest.
        softcap: of the target's logits.
    """

    hidden: Tensor
    share: float
    softcap: float | None = None

    def chances(self, rows: slice, columns: Columns) -> Tensor:
        """The target's probabilities of the columns for some rows."""
        logits = self.hidden[rows] @ columns.weight.T
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits.add_(columns.extra).softmax(-1)


@dataclass(frozen=True, slots=True)
class HeadOutput:
    """What a head says of P rows.

    Attributes:
        loss: [P] cross entropies with what is learned, with a gradient.
        surprise: [P] cross entropies with the right tokens alone, without one.
        best: [P, K] ids of the greatest logits, descending.
    """

    loss: Tensor
    surprise: Tensor
    best: Tensor


def read_head(
    hidden: Tensor, labels: Tensor, columns: Columns, count: int, teaching: Teaching | None = None
) -> HeadOutput:
    """Cross entropies of rows and their best candidates.

    Args:
        hidden: [P, H] final-normed rows.
        labels: [P] right tokens, all among the columns.
        columns: the head.
        count: K.
        teaching: what is learned beside the right tokens.
    """
    loss, surprise, best = _Head.apply(  # type: ignore[no-untyped-call]
        hidden, columns.at(labels), columns, count, teaching
    )
    return HeadOutput(loss, surprise, columns.ids[best])


class _Head(torch.autograd.Function):
    """Cross entropy whose gradient is ready when its value is."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        targets: Tensor,
        columns: Columns,
        count: int,
        teaching: Teaching | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        parts = []
        for start in range(0, len(hidden), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            taught = None if teaching is None else teaching.share * teaching.chances(rows, columns)
            label = 1.0 if teaching is None else 1.0 - teaching.share
            parts.append(_forward(hidden[rows], targets[rows], columns, count, label, taught))
        loss, surprise, best, gradient = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(surprise, best)
        return loss, surprise, best

    @staticmethod
    def backward(
        ctx: FunctionCtx, weights: Tensor, *_: Tensor
    ) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return weights[:, None] * gradient, None, None, None, None


def _forward(
    hidden: Tensor,
    targets: Tensor,
    columns: Columns,
    count: int,
    label: float,
    taught: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses, surprises, best columns and gradients of rows.

    The right tokens weigh `label`, and `taught` [P, C] are the weights of all columns beside them.
    """
    logits = hidden @ columns.weight.T
    if columns.multiplier != 1.0:
        logits *= columns.multiplier
    best = logits.topk(count, dim=-1).indices
    logits += columns.extra
    right = logits.gather(1, targets[:, None])[:, 0]
    total = logits.logsumexp(-1)
    loss = total - label * right
    if taught is not None:
        loss -= torch.linalg.vecdot(taught, logits)
    chances = logits.sub_(total[:, None]).exp_()
    chances[torch.arange(len(targets), device=targets.device), targets] -= label
    if taught is not None:
        chances -= taught
    gradient = chances @ columns.weight
    if columns.multiplier != 1.0:
        gradient *= columns.multiplier
    return loss, total - right, best, gradient
