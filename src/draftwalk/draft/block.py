"""A DFlash drafter's memory and its pass over whole blocks, whatever then picks the tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.backbone import Backbone
from draftwalk.ops import Matrix, Operations
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.state.attention import AttentionState


class BlockDrafter(ABC):
    """What DFlash and DFlash2 drafters have in common.

    Args:
        backbone: the network.
        head: [V, H] table that turns final rows into logits.
        ops: the back end.
    """

    def __init__(self, backbone: Backbone, head: Matrix, ops: Operations) -> None:
        self._backbone = backbone
        self._head = head
        self._ops = ops
        self.config = backbone.config
        self.state: AttentionState = backbone.new_state()

    @property
    def taps(self) -> tuple[int, ...]:
        """Target layers it listens to."""
        return self.config.taps

    @property
    def block(self) -> int:
        """Rows of a block."""
        return self.config.block

    @property
    def context(self) -> int:
        """Places its rope tables reach."""
        return self._backbone.context

    @abstractmethod
    def propose(self, requests: Sequence[DraftRequest], block: int | None = None) -> list[Draft]:
        """One pass for all blocks, then a path through each."""

    def observe(self, rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        """Injects the features of kept rows."""
        self._backbone.observe(self.state, rows, features, kept)

    def hidden(
        self, requests: Sequence[DraftRequest], block: int | None = None
    ) -> tuple[Rows, Tensor]:
        """Runs one block per request; the row table, and final-normed rows that predict, [M, H].

        Args:
            requests: who wants drafts.
            block: rows of the blocks; those of training unless a test asks for fewer.
        """
        for r in requests:
            behind = len(r.history) - 1 - self.state.length(r.sequence)
            assert behind == 0, f"the drafter is {behind} rows behind the text"
        masks = [self.config.mask] * ((block or self.block) - 1)
        rowsets = [
            Rowset(r.sequence, [r.history[-1], *masks], self.state.length(r.sequence), "none")
            for r in requests
        ]
        rows = Rows.lay_out(rowsets, self._ops.device)
        with pass_over(self.state, rows):  # nothing is kept: a block leaves no trace
            hidden = self._backbone.forward(self.state, rows)
        predicting = [n for span in rows.spans for n in range(span.start + 1, span.stop)]
        index = torch.tensor(predicting, device=self._ops.device)
        return rows, self._ops.gather(hidden, index)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [M, V] under the checkpoint's multiplier and cap."""
        return self._ops.head(hidden, self._head, self.config.multiplier, self.config.softcap)
