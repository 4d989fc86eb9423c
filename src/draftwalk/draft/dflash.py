"""DFlash: every row of the block predicts its own token, independently of the others."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.choose import choose
from draftwalk.rows import Rows
from draftwalk.verify.distribution import Support
from draftwalk.verify.logits import Logits

CONFIDENCE_TOKENS = 10  # llama.cpp's p_min looks at the softmax over the ten best logits


class DFlash(BlockDrafter):
    """A DFlash drafter; any distribution over its vocabulary can be its q."""

    def pick(self, requests: Sequence[DraftRequest], outputs: tuple[Tensor, ...]) -> list[Draft]:
        """A token for each row."""
        values, peaks, ids = outputs
        size = len(values) // len(requests)
        if self.vocabulary is not None and not all(_takes_best(one) for one in requests):
            values = self.vocabulary.spread(values)
        logits = Logits.of(values, (peaks[:, 0], ids[:, 0]))
        starts = range(0, len(values), size)
        return [
            _pick(logits.part(start, start + min(size, request.limit)), peaks[start:], request)
            for start, request in zip(starts, requests, strict=True)
        ]

    def candidates(self, outputs: tuple[Tensor, ...]) -> Tensor:
        """The ten best of each row."""
        return outputs[2]

    def outputs(self, hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """Logits [M, V], the greatest of them [M, 10] and their tokens."""
        logits = self.logits(hidden)
        return logits, *self.best(logits, CONFIDENCE_TOKENS)


def _takes_best(request: DraftRequest) -> bool:
    """Whether nothing but each row's greatest logit matters."""
    return request.sampling.greedy and request.sampling.plain


def _pick(logits: Logits, best: Tensor, request: DraftRequest) -> Draft:
    """Tokens of one block under the filters, which may look at those before."""
    tokens: list[int] = []
    q: list[Support] = []
    for n, row in enumerate(logits.rows(request.sampling, request.history, tokens)):
        token = choose(row, request, q, n)
        if token is None:
            break
        tokens.append(token)
    size = len(tokens)
    greatest: list[list[float]] = best[:size].tolist()
    taken = (
        [row[0] for row in greatest]
        if _takes_best(request)
        else logits.values[range(size), tokens].tolist()
    )
    sure = tuple(map(_share, taken, greatest))
    return Draft(tuple(tokens), tuple(q), sure)


def _share(taken: float, greatest: list[float]) -> float:
    """What one logit has in the softmax over the greatest, at most 1."""
    top = greatest[0]
    return min(exp(taken - top) / sum(exp(logit - top) for logit in greatest), 1.0)
