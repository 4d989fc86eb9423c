"""A drafter that drafts nothing and keeps what it hears: features are taken while answering.

The target reads every token exactly once, so there is no second pass for the features, and they
have the numerics of serving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.none import CountingState
from draftwalk.rows import Rows


class Recorder:
    """Keeps the features of every slot's committed rows, in bfloat16.

    Args:
        taps: target layers to listen to.
    """

    block = 1
    shortens = False
    context = 2**62

    def __init__(self, taps: tuple[int, ...]) -> None:
        self.taps = taps
        self.state = CountingState()
        self._heard: dict[int, list[Tensor]] = {}

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        """Nothing for anyone."""
        return [Draft() for _ in requests]

    def observe(self, rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        """Copies the kept rows: those of a pass are gone after the next one."""
        self.state.begin(rows)
        heard = features.to(torch.bfloat16)
        for span in rows.spans:
            if kept[span.sequence]:
                part = heard[span.start : span.start + kept[span.sequence]]
                self._heard.setdefault(span.sequence, []).append(part)
        self.state.commit(kept)

    def take(self, slot: int) -> Tensor:
        """The features [rows, F * H] of a slot so far, which are forgotten here."""
        return torch.cat(self._heard.pop(slot))
