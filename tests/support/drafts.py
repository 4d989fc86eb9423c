"""What drafters of one size draft, in float64, to compare them with each other."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.load import build_drafter
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.verify.noise import Noise
from draftwalk.weights import Checkpoint
from support.models import CPU, DOUBLE, target

ROWS = 9
SAMPLINGS = (
    Sampling(),
    Sampling(temperature=0.9),
    Sampling(temperature=0.9, rule="rejection"),
    Sampling(temperature=0.7, top_k=20, repeat_penalty=1.3, logit_bias={7: 2.0}),
)


def fed(drafter: BlockDrafter, width: int = 48) -> BlockDrafter:
    """After a few rows of random features in two slots."""
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(2 * ROWS, len(drafter.taps) * width, generator=draw, dtype=torch.float64)
    for slot in (0, 1):
        drafter.state.open(slot)
    rows = Rows.lay_out([Rowset(slot, [0] * ROWS, 0) for slot in (0, 1)], CPU)
    drafter.observe(rows, features, {0: ROWS, 1: ROWS})
    return drafter


def requests(sampling: Sampling) -> list[DraftRequest]:
    """One for each slot."""
    histories = ([5] * ROWS + [7], [6] * ROWS + [99])
    return [
        DraftRequest(slot, history, 5, sampling, Noise(4)) for slot, history in enumerate(histories)
    ]


def drafts_of(
    checkpoint: Checkpoint,
    vocabulary: Iterable[int] | None = None,
    samplings: Iterable[Sampling] = SAMPLINGS,
) -> list[Draft]:
    """Drafts of a checkpoint for the recorded llama, 48 wide with 160 tokens."""
    model = target("llama-rope3")
    drafter = build_drafter(
        checkpoint, DOUBLE, model.tables, model.depth, 512, vocabulary=vocabulary
    )
    return proposals(fed(drafter), samplings)


def proposals(drafter: BlockDrafter, samplings: Iterable[Sampling] = SAMPLINGS) -> list[Draft]:
    """Drafts of a drafter that has been fed."""
    return [draft for sampling in samplings for draft in drafter.propose(requests(sampling))]


def tokens_of(
    checkpoint: Checkpoint, vocabulary: Iterable[int] | None = None
) -> list[tuple[int, ...]]:
    """Their tokens."""
    return [draft.tokens for draft in drafts_of(checkpoint, vocabulary)]
