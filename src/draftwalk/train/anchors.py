"""Anchors: where in an answer blocks are put, and what each block should have said.

An anchor is a token of the target that has at least one more of its tokens behind it. Its block
predicts the tokens after it, as far as they are the target's; the chain stops at the first that is
not (the end of a turn). A block at the end of an answer is shorter in what it learns, never in its
rows, so that the ends of answers are learned too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from draftwalk.rows import Rows, Rowset
from draftwalk.train.shards import Answer


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of one answer.

    Attributes:
        anchors: [n] places, ascending.
        first: [n] the anchors' tokens.
        labels: [n, B - 1] the tokens after each anchor; 0 where nothing is learned.
        learned: [n, B - 1] where something is.
    """

    anchors: Tensor
    first: Tensor
    labels: Tensor
    learned: Tensor

    @property
    def before(self) -> Tensor:
        """[n, B - 1] the true token before each label."""
        return torch.cat([self.first[:, None], self.labels[:, :-1]], dim=1)

    @property
    def choosers(self) -> Tensor:
        """[n, B - 1] the place of the row from which the target chose each label."""
        return self.anchors[:, None] + torch.arange(self.labels.shape[1])


@dataclass(frozen=True, slots=True)
class Lesson:
    """Blocks of one answer that are learned together.

    Attributes:
        answer: with the features that the drafter listens to.
        blocks: where it drafts.
        last: [T - 1, H] the last layer's outputs at all of the answer's T tokens but its last, to
            learn the target's distribution from, if they were kept.
    """

    answer: Answer
    blocks: Blocks
    last: Tensor | None = None

    @property
    def reach(self) -> int:
        """Places of context that any block sees."""
        return int(self.blocks.anchors[-1])

    def cost(self) -> float:
        """What learning from it takes, in rows: a place of context is a tenth of a block's."""
        return self.blocks.labels.numel() + len(self.blocks.anchors) + 0.1 * len(self.answer.tokens)


def lay_out_blocks(lessons: Sequence[Lesson], mask: int, device: torch.device) -> Rows:
    """The row table of a pass over the blocks of several lessons; each is a sequence of its own."""
    rowsets: list[Rowset] = []
    for lesson in lessons:
        blocks = lesson.blocks
        masks = [mask] * blocks.labels.shape[1]
        for place, token in zip(blocks.anchors.tolist(), blocks.first.tolist(), strict=True):
            rowsets.append(Rowset(len(rowsets), [token, *masks], place, "drafted"))
    return Rows.lay_out(rowsets, device)


def anchor_places(answer: Answer) -> Tensor:
    """All places where a block can stand."""
    learned = answer.learned
    places = (learned[:-1] & learned[1:]).nonzero()[:, 0]
    return places[places > 0]


def blocks_at(answer: Answer, places: Tensor, block: int) -> Blocks:
    """Blocks of `block` rows at some places, ascending."""
    offsets = torch.arange(1, block)
    at = places[:, None] + offsets
    inside = at < len(answer.tokens)
    at = at.clamp(max=len(answer.tokens) - 1)
    learned = (answer.learned[at] & inside).cumprod(1).bool()
    labels = torch.where(learned, answer.tokens[at], 0)
    return Blocks(places, answer.tokens[places], labels, learned)


def draw_anchors(answer: Answer, count: int, generator: torch.Generator) -> Tensor:
    """At most `count` places, without replacement, ascending."""
    places = anchor_places(answer)
    chosen = torch.randperm(len(places), generator=generator)[:count]
    return places[chosen.sort().values]
