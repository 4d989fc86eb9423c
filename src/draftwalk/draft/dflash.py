"""DFlash: every row of the block predicts its own token, independently of the others."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.choose import choose
from draftwalk.rows import Rows
from draftwalk.verify.distribution import Support, supports

CONFIDENCE_TOKENS = 10  # llama.cpp's p_min looks at the softmax over the ten best logits


class DFlash(BlockDrafter):
    """A DFlash drafter; any distribution over the vocabulary can be its q."""

    def propose(self, requests: Sequence[DraftRequest], block: int | None = None) -> list[Draft]:
        """One pass for all blocks, then a token for each row."""
        if not requests:
            return []
        logits, best = self.draft(requests, block)
        size = len(logits) // len(requests)
        return [
            _pick(logits[start : start + size], best[start : start + size], request)
            for start, request in zip(range(0, len(logits), size), requests, strict=True)
        ]

    def outputs(self, hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """Logits [M, V] and the greatest of them [M, 10]."""
        logits = self.logits(hidden)
        best, _ = self._ops.top_k(logits, min(CONFIDENCE_TOKENS, self.config.sizes.vocabulary))
        return logits, best


def _pick(logits: Tensor, best: Tensor, request: DraftRequest) -> Draft:
    """Tokens of one block, each with q under the filters, which may look at those before it."""
    logits = logits[: request.limit].double()
    tokens: list[int] = []
    q: list[Support] = []
    for n in range(len(logits)):
        (support,) = supports(logits[n : n + 1], request.sampling, [*request.history, *tokens], ())
        if support.fault is not None:  # unusable logits: the draft ends, the text goes on
            break
        tokens.append(choose(support, request, n))
        q.append(support)
    taken = logits[range(len(tokens)), tokens]
    confidence = (taken - best[: len(tokens)].double().logsumexp(-1)).exp().clamp(max=1.0)
    return Draft(tuple(tokens), tuple(q), tuple(confidence.tolist()))
