"""Where a drafter's embeddings and logits come from: its target's tables, or its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from draftwalk.draft.config import DrafterConfig
from draftwalk.draft.names import FEATURES
from draftwalk.draft.vocabulary import MAP, DraftVocabulary, Ids, listed_ids, mapped_ids
from draftwalk.errors import CheckpointError
from draftwalk.fetch.hub.choice import MASK_ROW, MASK_ROW_UNREAD
from draftwalk.ops import Matrix, Operations
from draftwalk.target import SharedTables
from draftwalk.weights import Checkpoint
from draftwalk.weights.source import TensorSource
from draftwalk.weights.tensor import RawTensor, permute_rows

EMBEDDING, HEAD = "embed_tokens.weight", "lm_head.weight"


def has_mask_row(checkpoint: Checkpoint) -> bool:
    """Whether a drafter's folder has a row for the mask token apart."""
    return (checkpoint.path / MASK_ROW).is_file()


def warn_of_mask_row(checkpoint: Checkpoint) -> None:
    """Warns of a row that is not read: it is a pickle, and those run code.

    The text is the target's all the same; drafts from another row are worse.
    """
    if has_mask_row(checkpoint):
        warnings.warn(f"{checkpoint.path.name}: {MASK_ROW_UNREAD}", stacklevel=3)


@dataclass(frozen=True, slots=True)
class Tables:
    """Embedding [V, H], head [V, H] or [Vd, H], and then which tokens its rows are."""

    embedding: Matrix
    head: Matrix
    vocabulary: DraftVocabulary | None


@dataclass(frozen=True, slots=True)
class TableSource:
    """What the tables are taken from.

    Attributes:
        config: the drafter's.
        tensors: its tensors.
        tied: a head that is not among them is the embedding that is.
        ops: the back end.
        target: what is borrowed.
        where: the checkpoint, for messages.
    """

    config: DrafterConfig
    tensors: TensorSource
    tied: bool
    ops: Operations
    target: SharedTables
    where: str

    def take(self, listed: Iterable[int] | None) -> Tables:
        """The tables.

        Args:
            listed: tokens that may be proposed, in place of those the checkpoint lists.

        Raises:
            CheckpointError: tensors are missing, or do not belong together.
            PairingError: the list is of another target.
        """
        sizes = self.config.sizes
        own = self.tensors.take_optional(EMBEDDING, (sizes.vocabulary, sizes.width))
        embedding = self.target.embedding if own is None else self.ops.matrix(own)
        if MAP in self.tensors or self.config.head_rows != sizes.vocabulary:
            if listed is not None or self.config.listed is not None:
                raise CheckpointError(
                    f"{self.where} has a reduced draft vocabulary of its own, a list is one more",
                    "leave --draft-vocabulary out",
                )
            return Tables(embedding, *self._mapped())
        whole = (sizes.vocabulary, sizes.width)
        head = self.tensors.take_optional(HEAD, whole)
        if head is None and self.tied:
            head = own
        ids = self._listed(listed)
        if ids is None:
            return Tables(embedding, self._whole(own, head, embedding), None)
        return Tables(embedding, self._rows(head, ids), self._words(ids))

    def _mapped(self) -> tuple[Matrix, DraftVocabulary]:
        """Its own head of fewer rows, sorted by token: of equals the lowest id wins."""
        rows, sizes = self.config.head_rows, self.config.sizes
        ids = mapped_ids(self.tensors, rows, sizes.vocabulary, self.where)
        raw = self.tensors.take(HEAD, (rows, sizes.width))
        order = np.argsort(ids)
        if not np.array_equal(order, np.arange(rows)):
            raw = permute_rows(raw, order)
        return self.ops.matrix(raw), self._words(ids[order])

    def _listed(self, listed: Iterable[int] | None) -> Ids | None:
        where = "the draft vocabulary"
        if listed is None:
            listed, where = self.config.listed, f"{self.where}: the draft vocabulary"
        if listed is None:
            return None
        selector = self.config.selector
        least = 1 if selector is None else selector.candidates
        return listed_ids(listed, self.config.sizes.vocabulary, least, where)

    def _whole(self, own: RawTensor | None, head: RawTensor | None, embedding: Matrix) -> Matrix:
        if head is None:
            return self.target.head
        return embedding if head is own else self.ops.matrix(head)

    def _rows(self, head: RawTensor | None, ids: Ids) -> Matrix:
        """Some rows of the head, packed by themselves; the target's no wider than the drafter."""
        if head is not None:
            return self.ops.matrix(permute_rows(head, ids))
        assert self.target.head_rows is not None, "this target can give rows of its head"
        joined = len(self.config.taps) * self.config.target_width
        own = self.tensors.take(FEATURES, (self.config.sizes.width, joined))
        return self.target.head_rows(ids, own.format)

    def _words(self, ids: Ids) -> DraftVocabulary:
        known = torch.from_numpy(ids.astype(np.int64)).to(self.ops.device)
        return DraftVocabulary(known, self.config.sizes.vocabulary)
