"""Learning the selector: which of a row's candidates follows the true token before it.

Its tables are factors of the target's embedding, A(t) = P · E[t] and B(t) = S · E[t],
so that every pair of tokens teaches all tokens like them. The true token stands before each row
(teacher forcing), and a row whose right token is no candidate teaches nothing, as nothing could be
selected there; while candidates are still bad, it may be put in the weakest one's place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from draftwalk.train.head import Columns


@dataclass(frozen=True, slots=True)
class SelectorParts:
    """The selector's parameters.

    Attributes:
        gate: [R, H] hidden projection.
        before: [R, H] the predecessor's factor.
        after: [R, H] the successor's factor.
    """

    gate: Tensor
    before: Tensor
    after: Tensor


@dataclass(frozen=True, slots=True)
class SelectorOutput:
    """What the selector says of P rows.

    Attributes:
        loss: [P] cross entropies over K candidates, 0 where nothing is taught.
        covered: [P] whether the right token is a candidate.
        right: [P] whether it was selected.
    """

    loss: Tensor
    covered: Tensor
    right: Tensor


def read_selector(
    parts: SelectorParts,
    embedding: Tensor,
    columns: Columns,
    hidden: Tensor,
    candidates: Tensor,
    before: Tensor,
    labels: Tensor,
    inject: bool,
) -> SelectorOutput:
    """Losses of rows.

    Args:
        parts: the parameters.
        embedding: [V, H] the target's.
        columns: the head that chose the candidates.
        hidden: [P, H] final-normed rows.
        candidates: [P, K] token ids, descending by logit.
        before: [P] the true tokens before the rows.
        labels: [P] the right tokens.
        inject: put right tokens that are no candidates in the weakest one's place.
    """
    hit = candidates == labels[:, None]
    covered = hit.any(1)
    if inject:
        weakest = torch.where(covered, candidates[:, -1], labels)
        candidates = torch.cat([candidates[:, :-1], weakest[:, None]], dim=1)
        hit = candidates == labels[:, None]
    taught = hit.any(1)
    places = columns.at(candidates)
    unary = (columns.weight[places] @ hidden[:, :, None])[..., 0] * columns.multiplier
    # Far fewer tokens than columns.
    tokens, numbers = candidates.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    after = embedding[tokens] @ parts.after.T
    gated = (embedding[before] @ parts.before.T) * (hidden @ parts.gate.T)
    scores = unary + (after[numbers] @ gated[:, :, None])[..., 0]
    chances = scores.log_softmax(-1)
    loss = -chances.gather(1, hit.int().argmax(1, keepdim=True))[:, 0]
    with torch.no_grad():
        right = covered & hit.gather(1, scores.argmax(1, keepdim=True))[:, 0]
    return SelectorOutput(torch.where(taught, loss, 0.0), covered, right)
