"""Reduced draft vocabularies: a drafter that only ever proposes some of the target's tokens.

The head is most of a small drafter's work, and most of its rows are never drafted. What is left out
costs acceptance where it would have been right, and nothing else: the target's text stays what it
is. There are two kinds. A checkpoint may bring a head of its own with fewer rows and `d2t`, which
says how far each row's number is from its token's id. Or a list of tokens stands beside any
drafter: in a file, or in the checkpoint under this package's own key; then these rows of its head,
usually the target's, are packed once more at load.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.errors import CheckpointError, PairingError
from draftwalk.quant.integers import Bool
from draftwalk.weights.safetensors_file import read_safetensors
from draftwalk.weights.source import TensorSource

Ids = NDArray[np.int64]

MAP, MASK = "d2t", "t2d"
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, eq=False, slots=True)
class DraftVocabulary:
    """The tokens a drafter may propose.

    Attributes:
        ids: [Vd] int64, ascending; row n of the head is token ids[n].
        whole: tokens the target knows.
    """

    ids: Tensor
    whole: int

    def spread(self, logits: Tensor) -> Tensor:
        """[M, Vd] to [M, V]: tokens that are never proposed have no chance."""
        out = logits.new_full((len(logits), self.whole), -torch.inf)
        out[:, self.ids] = logits
        return out


def mapped_ids(tensors: TensorSource, rows: int, whole: int, where: str) -> Ids:
    """Which token each row of a checkpoint's own head is, from `d2t`; a `t2d` must agree.

    Raises:
        CheckpointError: they are missing, no map, or contradict each other.
    """
    offsets = tensors.take(MAP, (rows,)).integers()
    ids = offsets + np.arange(rows)
    _check(ids, whole, f"{where}: tensor {MAP}")
    mask = tensors.take_optional(MASK, (whole,))
    if mask is not None and not np.array_equal(np.flatnonzero(mask.integers()), np.sort(ids)):
        raise CheckpointError(f"{where}: tensors {MAP} and {MASK} name different tokens")
    return ids


def listed_ids(ids: Iterable[int], whole: int, least: int, where: str) -> Ids:
    """The ids of a list, ascending.

    Args:
        ids: in any order.
        whole: tokens the target knows.
        least: how many a drafter needs at least.
        where: they stand, for messages.

    Raises:
        CheckpointError: the list is no set of tokens.
        PairingError: it is of another target.
    """
    found = np.array([*ids], dtype=np.int64)
    if len(found) and found.max() >= whole:
        raise PairingError(
            f"{where} names token {found.max()}, the target has {whole}",
            "use a list that was made for this target",
        )
    _check(found, whole, where)
    if len(found) < least:
        raise CheckpointError(
            f"{where} names {len(found)} tokens, this drafter chooses among {least} at a time"
        )
    return np.sort(found)


def read_list(path: Path) -> list[int]:
    """A list of tokens beside a drafter: text with one id a line, or a safetensors file.

    In text, empty lines and what follows a # are passed over. A safetensors file holds one tensor,
    the ids as whole numbers, or a mask of booleans over the target's tokens.

    Raises:
        CheckpointError: it is neither.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if data[8:9] == b"{":
        return _from_tensor(path)
    if len(data) > _MOST_BYTES:
        raise CheckpointError(f"{path.name} is larger than {_MOST_BYTES} bytes")
    return [*_from_lines(data.removeprefix(BOM_UTF8), path.name)]


def _from_lines(data: bytes, where: str) -> Iterable[int]:
    for number, line in enumerate(data.splitlines(), start=1):
        text = line.partition(b"#")[0].strip()
        if not text:
            continue
        if not text.isdigit() or len(text) > 15:
            shown = line[:40].decode("utf-8", "backslashreplace")
            raise CheckpointError(
                f"{where}: line {number} is {shown!r}, expected the id of a token",
                "a draft vocabulary is text with one id a line, or a safetensors file",
            )
        yield int(text)


def _from_tensor(path: Path) -> list[int]:
    tensors = read_safetensors(path)
    if len(tensors) != 1:
        raise CheckpointError(f"{path.name} has {len(tensors)} tensors, expected one of token ids")
    (raw,) = tensors.values()
    if len(raw.shape) != 1:
        raise CheckpointError(
            f"{path.name}: tensor {raw.name} has shape {list(raw.shape)}, expected one row of ids"
        )
    values = raw.integers()
    ids: list[int] = (np.flatnonzero(values) if isinstance(raw.format, Bool) else values).tolist()
    return ids


def _check(ids: Ids, whole: int, where: str) -> None:
    """Distinct ids of the target's tokens."""
    if not len(ids):
        raise CheckpointError(f"{where} names no token")
    if ids.min() < 0 or ids.max() >= whole:
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise CheckpointError(f"{where} names token {wrong}, ids are 0 to {whole - 1}")
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) != len(ids):
        raise CheckpointError(f"{where} names token {unique[counts > 1][0]} twice")
