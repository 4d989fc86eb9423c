"""What a drafter is trained for: the loss of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from draftwalk.train.anchors import Lesson
from draftwalk.train.head import Columns, Teaching, read_head
from draftwalk.train.model import LearningDrafter
from draftwalk.train.selector import read_selector
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
    """Losses of blocks, and counts by offset for the log.

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
    lessons: Sequence[Lesson],
    columns: Columns,
    objective: Objective,
    inject: bool,
    rarity: Tensor | None = None,
) -> Losses:
    """Runs blocks through the drafter.

    Args:
        drafter: what is trained.
        lessons: the blocks, all of the same length B; none or all of them have the last layer's
            outputs.
        columns: the head; every label is among its ids.
        objective: how offsets are weighed.
        inject: see `read_selector`.
        rarity: see `decay`; by default all blocks are of the same length.
    """
    hidden = drafter.hidden(lessons)
    blocks = [lesson.blocks for lesson in lessons]
    learned = torch.cat([part.learned for part in blocks]).to(hidden.device)
    shape, flat = learned.shape, learned.reshape(-1)
    rows = hidden[flat]
    labels = torch.cat([part.labels for part in blocks]).to(hidden.device)[learned]
    selector = drafter.selector
    count = 1 if selector is None else drafter.candidates
    teaching = _teaching(drafter, lessons, objective.taught)
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
        before = torch.cat([part.before for part in blocks]).to(hidden.device)[learned]
        chosen = read_selector(
            selector, drafter.embedding, columns, rows, head.best, before, labels, inject
        )
        total = total + objective.selector * (weights * spread(chosen.loss)).sum()
        covered, selected = spread(chosen.covered), spread(chosen.right)
    return Losses(total, surprise, learned, right, covered, selected)


def _teaching(drafter: LearningDrafter, lessons: Sequence[Lesson], share: float) -> Teaching | None:
    """The target's rows that chose what the lessons' blocks learn."""
    tables = drafter.tables
    if share <= 0.0:
        return None
    chosen = [
        lesson.last[lesson.blocks.choosers[lesson.blocks.learned]]
        for lesson in lessons
        if lesson.last is not None
    ]
    if not chosen:
        return None
    assert len(chosen) == len(lessons), "lessons with and without the last layer are learned apart"
    hidden = tables.finish(torch.cat(chosen).to(drafter.device, torch.float32))
    return Teaching(hidden, share, tables.softcap)
