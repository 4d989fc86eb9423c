"""DFlash2: the selector walks one coherent path through the candidates of all rows.

Every row keeps its K best tokens; a low-rank score says how well each follows each candidate of
the row before. The walk goes left to right, one token at a time, from the anchor.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.backbone import Backbone
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.choose import choose
from draftwalk.errors import NumericalError
from draftwalk.ops import Linear, Matrix, Operations
from draftwalk.rows import Rows
from draftwalk.verify.distribution import Support, candidate_support


class DFlash2(BlockDrafter):
    """A DFlash2 drafter.

    Args:
        backbone: the network, with convolutions.
        head: [V, H] table that turns final rows into logits.
        gate: hidden projection [R, H] of the selector.
        tables: the predecessor's and the successor's [V, R].
        ops: the back end.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: Matrix,
        gate: Linear,
        tables: tuple[Matrix, Matrix],
        ops: Operations,
    ) -> None:
        super().__init__(backbone, head, ops)
        self._gate = gate
        self._tables = tables

    def propose(self, requests: Sequence[DraftRequest], block: int | None = None) -> list[Draft]:
        """One pass for all blocks, then a walk for each."""
        if not requests:
            return []
        candidates, scores = (part.cpu() for part in self.draft(requests, block))
        size = len(candidates) // len(requests)
        return [
            _walk(candidates[start : start + size], scores[start : start + size].double(), request)
            for start, request in zip(range(0, len(scores), size), requests, strict=True)
        ]

    def outputs(self, hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """Candidates [M, K] and scores [M, K, K] after each candidate of the row before."""
        selector = self.config.selector
        assert selector is not None, "a DFlash2 drafter has a selector"
        unary, candidates = self._ops.top_k(self.logits(hidden), selector.candidates)
        (gate,) = self._ops.linear(hidden, (self._gate,))
        return candidates, self._ops.selector(unary, candidates, gate, self._tables, rows)


def _walk(candidates: Tensor, scores: Tensor, request: DraftRequest) -> Draft:
    """One path of at most `limit` tokens, with q and the transition's own probability."""
    tokens: list[int] = []
    q: list[Support] = []
    confidence: list[float] = []
    predecessor = 0
    for n in range(min(request.limit, len(candidates))):
        row = scores[n, predecessor]
        try:
            support = candidate_support(
                candidates[n], row, request.sampling, [*request.history, *tokens]
            )
        except NumericalError:  # unusable scores: the draft ends, the text goes on
            break
        token = choose(support, request, n)
        predecessor = int(torch.nonzero(candidates[n] == token)[0])
        tokens.append(token)
        q.append(support)
        confidence.append(float(row.softmax(-1)[predecessor]))
    return Draft(tuple(tokens), tuple(q), tuple(confidence))
