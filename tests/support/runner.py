"""A target's passes, cut as one likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.target.decoder import Decoder
from support.models import CPU


class Runner:
    """A target's state, driven pass by pass."""

    def __init__(self, target: Decoder) -> None:
        self.target = target
        self.state = target.new_state()
        self.lengths: dict[int, int] = {}

    def step(self, parts: Mapping[int, Sequence[int]], kept: int | None = None) -> list[Tensor]:
        """Logits of every part's rows; keeps all of them, or `kept`."""
        for slot in parts:
            if slot not in self.lengths:
                self.state.open(slot)
                self.lengths[slot] = 0
        rowsets = [Rowset(slot, part, self.lengths[slot]) for slot, part in parts.items()]
        rows = Rows.lay_out(rowsets, CPU)
        with pass_over(self.state, rows) as keep:
            logits = self.target.forward(rows, self.state, ()).logits.clone()
            for slot, part in parts.items():
                keep[slot] = len(part) if kept is None else kept
                self.lengths[slot] += keep[slot]
        return list(logits.split([len(part) for part in parts.values()]))


def in_chunks(target: Decoder, text: Sequence[int], chunk: int) -> Tensor:
    runner = Runner(target)
    parts = [text[start : start + chunk] for start in range(0, len(text), chunk)]
    return torch.cat([runner.step({0: part})[0] for part in parts])
