"""What a drafter is trained for: the loss of blocks in one answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from draftwalk.train.anchors import Blocks
from draftwalk.train.head import Columns, Teaching, read_head
from draftwalk.train.model import LearningDrafter
from draftwalk.train.selector import read_selector
from draftwalk.train.shards import Answer
from draftwalk.train.weighting import Weighting, d_pace, decay


@dataclass(frozen=True, slots=True)
class Objective:
    """How losses are weighed.

    Attributes:
        weighting: of offsets.
        half: the decay of fixed weights, in offsets.
        floor: of D-PACE.
        selector: weight of the selector's loss beside the head's.
        taught: share of the target's distribution in what the head learns, beside its token, where
            the answers have it.
    """

    weighting: Weighting = "d-pace"
    half: float = 4.0
    floor: float = 0.5
    selector: float = 1.0
    taught: float = 0.5


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of one answer's blocks, and counts by offset for the log.

    Attributes:
        total: what is minimised: a sum over blocks.
        head: [n, B - 1] cross entropies with the right tokens, detached.
        learned: [n, B - 1] where something was learned.
        right: [n, B - 1] whether the greatest logit was right.
        covered: [n, B - 1] whether the right token was a candidate.
        selected: [n, B - 1] whether the selector chose it, the true token before it given.
    """

    total: Tensor
    head: Tensor
    learned: Tensor
    right: Tensor
    covered: Tensor
    selected: Tensor

    @property
    def accepted(self) -> Tensor:
        """[n, B - 1] whether this and all tokens before it would be accepted."""
        return (self.selected & self.learned).cumprod(1).bool()

    @property
    def at_risk(self) -> Tensor:
        """[n, B - 1] whether all tokens before it would be accepted, and it is known if it is."""
        accepted = self.accepted
        before = torch.cat([torch.ones_like(accepted[:, :1]), accepted[:, :-1]], dim=1)
        return before & self.learned


def losses(
    drafter: LearningDrafter,
    answer: Answer,
    blocks: Blocks,
    columns: Columns,
    objective: Objective,
    inject: bool,
    rarity: Tensor | None = None,
    last: Tensor | None = None,
) -> Losses:
    """Runs blocks through the drafter.

    Args:
        drafter: what is trained.
        answer: where the blocks stand.
        blocks: which.
        columns: the head; every label is among its ids.
        objective: how offsets are weighed.
        inject: see `read_selector`.
        rarity: see `decay`; by default all blocks are of the same length.
        last: [n - 1, H] the last layer's outputs in this answer, to learn its distribution from.
    """
    hidden = drafter.hidden(answer, blocks)
    learned = blocks.learned.to(hidden.device)
    shape, flat = learned.shape, learned.reshape(-1)
    rows = hidden[flat]
    labels = blocks.labels.to(hidden.device)[learned]
    selector = drafter.selector
    count = 1 if selector is None else drafter.candidates
    teaching = None
    if last is not None and objective.taught > 0.0:
        tables = drafter.tables
        hidden_of_target = tables.finish(last[blocks.choosers[blocks.learned]].to(rows))
        teaching = Teaching(hidden_of_target, objective.taught, tables.softcap)
    head = read_head(rows, labels, columns, count, teaching)

    def spread(values: Tensor) -> Tensor:
        return values.new_zeros(flat.shape).masked_scatter(flat, values).view(shape)

    loss, surprise = spread(head.loss), spread(head.surprise)
    right = spread(head.best[:, 0] == labels)
    rarity = torch.ones(shape[1]) if rarity is None else rarity
    rarity = rarity.to(hidden.device)
    if objective.weighting == "decay":
        weights = decay(learned, objective.half, rarity)
    else:
        weights = d_pace(surprise, learned, objective.floor, rarity)
    total = (weights * loss).sum()
    covered = selected = right
    if selector is not None:
        before = blocks.before.to(hidden.device)[learned]
        chosen = read_selector(
            selector, drafter.embedding, columns, rows, head.best, before, labels, inject
        )
        total = total + objective.selector * (weights * spread(chosen.loss)).sum()
        covered, selected = spread(chosen.covered), spread(chosen.right)
    return Losses(total, surprise, learned, right, covered, selected)
