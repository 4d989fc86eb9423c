"""DFlash2: the selector walks one coherent path through the candidates of all rows.

Every row keeps its K best tokens; a low-rank score says how well each follows each candidate of
the row before. The walk goes left to right, one token at a time, from the anchor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.backbone import Backbone
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.choose import choose
from draftwalk.draft.vocabulary import DraftVocabulary
from draftwalk.ops import Linear, Matrix, Operations
from draftwalk.rows import Rows
from draftwalk.verify.distribution import Support, candidate_support
from draftwalk.verify.native import Lattice, chooser_for, native_walk

if TYPE_CHECKING:
    from draftwalk._native import Chooser


class DFlash2(BlockDrafter):
    """A DFlash2 drafter.

    Args:
        backbone: the network, with convolutions.
        head: [V, H] or [Vd, H] table that turns final rows into logits.
        gate: hidden projection [R, H] of the selector.
        tables: the predecessor's and the successor's [V, R].
        ops: the back end.
        vocabulary: which tokens the rows of a smaller head are.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: Matrix,
        gate: Linear,
        tables: tuple[Matrix, Matrix],
        ops: Operations,
        vocabulary: DraftVocabulary | None = None,
    ) -> None:
        super().__init__(backbone, head, ops, vocabulary)
        self._gate = gate
        self.tables = tables

    def pick(self, requests: Sequence[DraftRequest], outputs: tuple[Tensor, ...]) -> list[Draft]:
        """A walk through each block."""
        lattice = Lattice(*outputs)
        size = lattice.candidates.shape[0] // len(requests)
        chooser = chooser_for(lattice.scores)
        drafts = []
        for n, request in enumerate(requests):
            rows = range(n * size, n * size + min(size, request.limit))
            drafts.append(
                walk(lattice, rows, request)
                if chooser is None
                else fast_walk(chooser, lattice, rows, request)
            )
        return drafts

    def candidates(self, outputs: tuple[Tensor, ...]) -> Tensor:
        """What the walk chooses among."""
        return outputs[0]

    def outputs(self, hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """Candidates [M, K] and scores [M, K, K] after each candidate of the row before."""
        selector = self.config.selector
        assert selector is not None, "a DFlash2 drafter has a selector"
        unary, candidates = self.best(self.logits(hidden), selector.candidates)
        (gate,) = self._ops.linear(hidden, (self._gate,))
        return candidates, self._ops.selector(unary, candidates, gate, self.tables, rows)


def fast_walk(chooser: Chooser, lattice: Lattice, rows: range, request: DraftRequest) -> Draft:
    """One path through the rows of a block, natively."""
    tokens, confidence, q = native_walk(
        chooser, lattice, rows, request.sampling, request.noise, request.history
    )
    return Draft(tuple(tokens), tuple(q), tuple(confidence))


def walk(lattice: Lattice, rows: range, request: DraftRequest) -> Draft:
    """One path with q and the transition's own probability: the reference."""
    scores = lattice.scores[rows.start : rows.stop].double().cpu()
    tokens: list[int] = []
    q: list[Support] = []
    confidence: list[float] = []
    predecessor = 0
    for n, ids in enumerate(lattice.candidates[rows.start : rows.stop].cpu()):
        row = scores[n, predecessor]
        text = request.history if request.sampling.plain else [*request.history, *tokens]
        token = choose(candidate_support(ids, row, request.sampling, text), request, q, n)
        if token is None:
            break
        predecessor = ids.tolist().index(token)
        tokens.append(token)
        confidence.append(float(row.softmax(-1)[predecessor]))
    return Draft(tuple(tokens), tuple(q), tuple(confidence))
