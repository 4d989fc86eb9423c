"""DFlash2: the selector walks one coherent path through the candidates of all rows.

Every row keeps its K best tokens; a low-rank score says how well each follows each candidate of
the row before. The walk goes left to right, one token at a time, from the anchor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.backbone import Backbone
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.choose import choose
from draftwalk.ops import Linear, Matrix, Operations
from draftwalk.rows import Rows
from draftwalk.verify.distribution import Support, candidate_support
from draftwalk.verify.native import chooser_for, native_walk

if TYPE_CHECKING:
    from draftwalk._native import Chooser


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
        candidates, scores = self.draft(requests, block)
        size = candidates.shape[0] // len(requests)
        lattice = _Lattice(candidates, scores, chooser_for(scores))
        return [_walk(lattice, n * size, size, one) for n, one in enumerate(requests)]

    def outputs(self, hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """Candidates [M, K] and scores [M, K, K] after each candidate of the row before."""
        selector = self.config.selector
        assert selector is not None, "a DFlash2 drafter has a selector"
        unary, candidates = self._ops.top_k(self.logits(hidden), selector.candidates)
        (gate,) = self._ops.linear(hidden, (self._gate,))
        return candidates, self._ops.selector(unary, candidates, gate, self._tables, rows)


@dataclass(frozen=True, slots=True)
class _Lattice:
    """What paths are looked for in.

    Attributes:
        candidates: [M, K] of the drafted rows of all blocks.
        scores: [M, K, K] after each candidate of the row before.
        chooser: what can look for them natively, if anything can.
    """

    candidates: Tensor
    scores: Tensor
    chooser: Chooser | None


def _walk(lattice: _Lattice, first: int, size: int, request: DraftRequest) -> Draft:
    """One path of at most `limit` tokens through rows of one block."""
    sampling, size = request.sampling, min(request.limit, size)
    drawn = sampling.rule == "rejection"
    if lattice.chooser is None or not sampling.plain or (drawn and not sampling.greedy):
        rows = slice(first, first + size)
        return _walk_slowly(
            lattice.candidates[rows].cpu(), lattice.scores[rows].double().cpu(), request
        )
    tokens, confidence = native_walk(
        lattice.chooser,
        lattice.candidates,
        lattice.scores,
        range(first, first + size),
        sampling,
        request.noise,
        len(request.history),
    )
    q = map(Support.certain, tokens) if drawn else ()
    return Draft(tuple(tokens), tuple(q), tuple(confidence))


def _walk_slowly(candidates: Tensor, scores: Tensor, request: DraftRequest) -> Draft:
    """The reference, for any sampling and float type."""
    tokens: list[int] = []
    q: list[Support] = []
    confidence: list[float] = []
    predecessor = 0
    for n, ids in enumerate(candidates):
        row = scores[n, predecessor]
        text = request.history if request.sampling.plain else [*request.history, *tokens]
        token = choose(candidate_support(ids, row, request.sampling, text), request, q, n)
        if token is None:
            break
        predecessor = int((ids.numpy() == token).argmax())
        tokens.append(token)
        confidence.append(_softmax_at(row.numpy(), predecessor))
    return Draft(tuple(tokens), tuple(q), tuple(confidence))


def _softmax_at(row: NDArray[np.float64], place: int) -> float:
    weights = np.exp(row - row.max())
    return float(weights[place] / weights.sum())
