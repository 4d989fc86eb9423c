"""DFlash2: the selector walks one coherent path through the candidates of all rows.

Every row keeps its K best tokens; a low-rank score says how well each follows each candidate of
the row before. The walk goes left to right, one token at a time, from the anchor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.backbone import Backbone
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.choose import choose
from draftwalk.ops import Linear, Matrix, Operations
from draftwalk.rows import Rows
from draftwalk.verify.distribution import Support, candidates_changed, support_of_few
from draftwalk.verify.native import NativeCandidates, chooser_for, native_walk
from draftwalk.verify.penalties import recent_counts
from draftwalk.verify.verdict import Row

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
        chooser = chooser_for(scores)
        return [
            _walk(candidates, scores, range(n * size, (n + 1) * size), chooser, request)
            for n, request in enumerate(requests)
        ]

    def outputs(self, hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """Candidates [M, K] and scores [M, K, K] after each candidate of the row before."""
        selector = self.config.selector
        assert selector is not None, "a DFlash2 drafter has a selector"
        unary, candidates = self._ops.top_k(self.logits(hidden), selector.candidates)
        (gate,) = self._ops.linear(hidden, (self._gate,))
        return candidates, self._ops.selector(unary, candidates, gate, self._tables, rows)


def _walk(
    candidates: Tensor, scores: Tensor, rows: range, chooser: Chooser | None, request: DraftRequest
) -> Draft:
    """One path of at most `limit` tokens through the rows of a block."""
    sampling, rows = request.sampling, rows[: request.limit]
    drawn = sampling.rule == "rejection"
    if chooser is None or not sampling.plain or (drawn and not sampling.greedy):
        block = slice(rows.start, rows.stop)
        return _walk_by_step(candidates[block].tolist(), scores[block], chooser, request)
    tokens, confidence = native_walk(
        chooser, candidates, scores, rows, sampling, request.noise, len(request.history)
    )
    q = map(Support.certain, tokens) if drawn else ()
    return Draft(tuple(tokens), tuple(q), tuple(confidence))


def _walk_by_step(
    candidates: list[list[int]], scores: Tensor, chooser: Chooser | None, request: DraftRequest
) -> Draft:
    """The same for any sampling, rule and float type; the transition's own probability as well."""
    sampling = request.sampling
    lattice = scores.double().cpu().numpy()
    tokens: list[int] = []
    q: list[Support] = []
    confidence: list[float] = []
    predecessor = 0
    last_n = sampling.repeat_last_n if sampling.penalised else 0
    counts = recent_counts(request.history, tokens, last_n)
    for n, (ids, seen) in enumerate(zip(candidates, counts, strict=False)):
        own = lattice[n, predecessor].tolist()
        changed = candidates_changed(own, ids, seen, sampling)
        row: Row
        if chooser is None:
            row = support_of_few(changed, ids, sampling)
        else:
            row = NativeCandidates(chooser, ids, changed, sampling)
        token = choose(row, request, q, n)
        if token is None:
            break
        predecessor = ids.index(token)
        tokens.append(token)
        confidence.append(_softmax_at(own, predecessor))
    return Draft(tuple(tokens), tuple(q), tuple(confidence))


def _softmax_at(row: list[float], place: int) -> float:
    peak = max(row)
    return math.exp(row[place] - peak) / sum(math.exp(score - peak) for score in row)
