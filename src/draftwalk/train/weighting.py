"""How much each offset of a block counts: an early mistake makes all later tokens worthless."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Weighting = Literal["decay", "d-pace"]


def decay(learned: Tensor, half: float, rarity: Tensor) -> Tensor:
    """Fixed weights exp(-(k - 1) / half) for offsets k = 1, 2, ... (DFlash, equation 4).

    Args:
        learned: [n, B - 1] where something is learned.
        half: the decay in offsets; about half of the block.
        rarity: [B - 1] one over the share of blocks that are long enough to have the offset.
    """
    offsets = torch.arange(learned.shape[1], device=learned.device)
    return torch.exp(-offsets / half) * rarity * learned


def d_pace(loss: Tensor, learned: Tensor, floor: float, rarity: Tensor) -> Tensor:
    """Weights from the drafter's own chances (D-PACE, arXiv 2605.18810).

    Offset j counts as much as the expected number of tokens that are accepted from it on: the sum
    over m >= j of the product over i <= m of q_i, where q_i is the probability given to the right
    token, raised towards one by `floor` (alpha in the publication).

    Args:
        loss: [n, B - 1] cross entropies.
        learned: [n, B - 1] where something is learned; the other offsets count as certain.
        floor: 0 trusts the chances, 1 ignores them.
        rarity: as for `decay`; a token that few blocks reach for counts for those that did not.
    """
    chance = (1 - floor) * torch.exp(-loss.detach()) + floor
    reached = torch.where(learned, chance, 1.0).cumprod(1) * learned * rarity
    return reached.flip(1).cumsum(1).flip(1) * learned


def default_half(block: int) -> float:
    """The usual decay of a block: 7 for 16 rows, 4 for 8."""
    return 7.0 if block >= 16 else block / 2


def rarity_of(lengths: tuple[int, ...], rows: int) -> Tensor:
    """[rows - 1] one over the share of `lengths` that have each offset of a block of `rows`."""
    shares = [sum(length > k for length in lengths) / len(lengths) for k in range(1, rows)]
    return 1 / torch.tensor(shares)
