"""Whether a checkpoint is a drafter's, and whole; told without its target and without memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.config import DrafterConfig
from draftwalk.draft.load import assemble, read_config
from draftwalk.draft.names import FEATURES
from draftwalk.draft.pairing import EMBEDDING
from draftwalk.ops.memory import KVType
from draftwalk.ops.shapes import META, ShapeOperations
from draftwalk.ops.torch import DenseMatrix
from draftwalk.quant import Format
from draftwalk.target import SharedTables
from draftwalk.weights import Checkpoint

_SETTINGS = ("target_layer_ids", "dflash_config")


def is_drafter(checkpoint: Checkpoint) -> bool:
    """Told by what it is made of, or should be: it joins a target's features, and is no target."""
    named = any(checkpoint.config.get(key) is not None for key in _SETTINGS)
    return (named or FEATURES in checkpoint.tensors) and EMBEDDING not in checkpoint.tensors


def check_whole(checkpoint: Checkpoint) -> DrafterConfig:
    """A drafter's configuration, after all of its tensors were found to be as it says.

    Raises:
        CheckpointError: something is missing, left over, of another shape or out of range.
    """
    config = read_config(checkpoint)
    build_alone(checkpoint, ShapeOperations(), config.block)
    return config


def build_alone(
    checkpoint: Checkpoint,
    ops: ShapeOperations,
    context: int,
    listed: Sequence[int] | None = None,
    kv: KVType | None = None,
) -> BlockDrafter:
    """The drafter over tables of a target of the size it expects; see `build_drafter`."""
    config = read_config(checkpoint)
    shape = (config.sizes.vocabulary, config.sizes.width)
    table = DenseMatrix(torch.empty(shape, dtype=ops.dtype, device=META))

    def rows(numbers: NDArray[np.int64], _: Format) -> DenseMatrix:
        """Rows of the target's head, whose type nobody knows."""
        return DenseMatrix(table.weight[: len(numbers)])

    target = SharedTables(table, table, rows)
    return assemble(checkpoint, config, ops, target, context, listed, kv)
