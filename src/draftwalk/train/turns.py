"""Where in an answer the engine would draft: in each turn from its first token on."""

from __future__ import annotations

from dataclasses import dataclass

from torch.nn.functional import pad

from draftwalk.train.shards import Answer


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the target.

    Attributes:
        first: place of its first token, which the prompt's pass has chosen: the first anchor.
        last: place of the last anchor that has a draft.
        end: behind its last token.
        limit: behind the last token that it could have had.
    """

    first: int
    last: int
    end: int
    limit: int


def turns_of(answer: Answer, most: int, furthest: int) -> list[Turn]:
    """The turns of an answer in which there is something to draft.

    A turn that stopped did so by itself, before its limit. One that was cut is taken as if it had
    been limited to what there is of it.

    Args:
        answer: of one turn or several; all but the last have stopped.
        most: tokens that a turn could have.
        furthest: the last place where the drafter can draft.
    """
    edges = pad(answer.learned.int(), (1, 1)).diff().nonzero()[:, 0].tolist()
    count = len(edges) // 2
    turns = []
    for number, (first, end) in enumerate(zip(edges[::2], edges[1::2], strict=True), 1):
        stopped = number < count or answer.facts.finish == "stop"
        limit = max(end, first + most) if stopped else end
        # Where only one token may still come there is nothing to draft: it comes anyway.
        last = min(end - 2, limit - 3, furthest)
        if first <= last:
            turns.append(Turn(first, last, end, limit))
    return turns
