"""A DFlash drafter's memory and its passes, whatever then picks the tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.backbone import Backbone
from draftwalk.draft.vocabulary import DraftVocabulary
from draftwalk.ops import Matrix, Operations
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.state.attention import AttentionState

_FEW = 8  # rows: so few take little more time than one


class BlockDrafter(ABC):
    """What DFlash and DFlash2 drafters have in common.

    Args:
        backbone: the network.
        head: [V, H] table that turns final rows into logits, or [Vd, H].
        ops: the back end.
        vocabulary: which tokens the Vd rows of a smaller head are.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: Matrix,
        ops: Operations,
        vocabulary: DraftVocabulary | None = None,
    ) -> None:
        self._backbone = backbone
        self._head = head
        self._ops = ops
        self.vocabulary = vocabulary
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
    def shortens(self) -> bool:
        """Whether all rows of a block see only those before them."""
        return all(self.config.causal)

    @property
    def context(self) -> int:
        """Places its rope tables reach."""
        return self._backbone.context

    @property
    def ops(self) -> Operations:
        """The back end it runs on."""
        return self._ops

    def propose(self, requests: Sequence[DraftRequest], block: int | None = None) -> list[Draft]:
        """One pass for all blocks, then a path through each."""
        return self.pick(requests, self.draft(requests, block)) if requests else []

    @abstractmethod
    def pick(self, requests: Sequence[DraftRequest], outputs: tuple[Tensor, ...]) -> list[Draft]:
        """A path through each block of a pass, from what `draft` returned."""

    @abstractmethod
    def candidates(self, outputs: tuple[Tensor, ...]) -> Tensor:
        """Each drafted row's tokens of the greatest logits [M, K], from what `draft` returned."""

    @abstractmethod
    def outputs(self, hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """The end of a pass: what tokens are picked from, for the drafted rows [M, H]."""

    def observe(self, rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        """Injects the features of each span's first `kept` rows as context, while they fit in it.

        No block will ever stand behind places that do not.
        """
        counts = {
            span.sequence: min(kept[span.sequence], self.context - span.context)
            for span in rows.spans
        }
        if max(counts.values()) <= 0:
            return
        if self._takes_all(rows):
            sizes, chosen = {span.sequence: span.size for span in rows.spans}, features
        else:
            sizes = {sequence: count for sequence, count in counts.items() if count > 0}
            chosen = self._first(rows, features, sizes)
        rowsets = [
            Rowset(span.sequence, [0] * sizes[span.sequence], span.context, "none")
            for span in rows.spans
            if span.sequence in sizes
        ]
        context = Rows.lay_out(rowsets, self._ops.device)

        def body(context: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            self._backbone.inject(self.state, context, *inputs)
            return ()

        with pass_over(self.state, context) as injected:
            self._ops.run((self, "inject"), context, (chosen,), body)
            injected.update({sequence: max(0, counts[sequence]) for sequence in sizes})

    def _takes_all(self, rows: Rows) -> bool:
        """Whether all rows of a pass are injected, and those that are not kept dropped at its end.

        Where they are few that takes less time than to cut the features.
        """
        spans = rows.spans
        return (
            rows.size <= _FEW
            and sum(span.size for span in spans) == rows.size
            and all(span.context + span.size <= self.context for span in spans)
        )

    def _first(self, rows: Rows, features: Tensor, sizes: Mapping[int, int]) -> Tensor:
        """The features of the first rows of some spans, one span after the other."""
        taken = [span for span in rows.spans if span.sequence in sizes]
        if len(taken) == 1:  # one after the other, so there is nothing to gather
            return features.narrow(0, taken[0].start, sizes[taken[0].sequence])
        index = [span.start + n for span in taken for n in range(sizes[span.sequence])]
        return self._ops.gather(features, torch.tensor(index, device=self._ops.device))

    def draft(
        self, requests: Sequence[DraftRequest], block: int | None = None
    ) -> tuple[Tensor, ...]:
        """Runs one block per request; `outputs` for all drafted rows of all blocks.

        Args:
            requests: who wants drafts.
            block: rows of the blocks; by default as few as give the requests' drafts.
        """
        for r in requests:
            behind = len(r.history) - 1 - self.state.length(r.sequence)
            assert behind == 0, f"the drafter is {behind} rows behind the text"
        if block is None:
            block = max(r.limit for r in requests) + 1 if self.shortens else self.block
        masks = [self.config.mask] * (block - 1)
        rowsets = [
            Rowset(r.sequence, [r.history[-1], *masks], self.state.length(r.sequence), "drafted")
            for r in requests
        ]
        rows = Rows.lay_out(rowsets, self._ops.device)

        def body(rows: Rows, _inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            hidden = self._backbone.forward(self.state, rows)
            return self.outputs(self._ops.gather(hidden, rows.wanted), rows)

        with pass_over(self.state, rows):  # nothing is kept: a block leaves no trace
            return self._ops.run((self, "draft"), rows, (), body)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [M, V] or [M, Vd] under the checkpoint's multiplier and cap."""
        return self._ops.head(hidden, self._head, self.config.multiplier, self.config.softcap)

    def best(self, logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The greatest logits of each row and the tokens they are of, descending."""
        values, rows = self._ops.top_k(logits, min(count, self._head.shape[0]))
        if self.vocabulary is None:
            return values, rows
        return values, self._ops.renumber(rows, self.vocabulary.ids)
