"""Which of the stored features a drafter listens to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftwalk.errors import UserError
from draftwalk.train.shards import DataFacts


def check_taps(facts: DataFacts, taps: Sequence[int]) -> None:
    """Checks that features of some layers were kept.

    Raises:
        UserError: those of one of the layers were not.
    """
    missing = [tap for tap in taps if tap not in facts.taps]
    if missing:
        raise UserError(
            f"the answers have features of layers {list(facts.taps)}, not of {missing}",
            "make answers with those taps, or choose others",
        )


def feature_columns(facts: DataFacts, taps: Sequence[int]) -> Tensor:
    """Columns of the features of some layers, in the order in which a drafter joins them.

    Raises:
        UserError: features of one of the layers were not kept.
    """
    check_taps(facts, taps)
    starts = torch.tensor([facts.taps.index(tap) * facts.width for tap in taps])
    return (starts[:, None] + torch.arange(facts.width)).reshape(-1)
