"""From a checkpoint to a drafter: its kind, its parts, and whether it fits the target."""

from __future__ import annotations

from draftwalk.draft.backbone import Backbone
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.config import DrafterConfig, SelectorConfig
from draftwalk.draft.dflash import DFlash
from draftwalk.draft.dflash2 import DFlash2
from draftwalk.errors import CheckpointError, PairingError
from draftwalk.ops import Linear, Matrix, Operations
from draftwalk.target import SharedTables
from draftwalk.weights import Checkpoint
from draftwalk.weights.source import TensorSource

_GATE = "candidate_selector.hidden_projection.weight"
_TABLES = ("predecessor", "successor")


def read_config(checkpoint: Checkpoint) -> DrafterConfig:
    """The drafter's configuration; tensors decide between DFlash and DFlash2.

    Raises:
        CheckpointError: configuration and tensors disagree about the kind.
    """
    config = DrafterConfig.read(checkpoint.config, checkpoint.path.name)
    if (config.selector is not None) != (_GATE in checkpoint.tensors):
        found = "key selector_rank" if config.selector is not None else f"tensor {_GATE}"
        lacks = f"tensor {_GATE}" if config.selector is not None else "key selector_rank"
        raise CheckpointError(
            f"{checkpoint.path.name}: {found} is a DFlash2 drafter's, but there is no {lacks}"
        )
    return config


def check_pairing(config: DrafterConfig, vocabulary: int, width: int, depth: int) -> None:
    """Whether a drafter's sizes fit a target's.

    Raises:
        PairingError: names both numbers.
    """
    if config.sizes.vocabulary != vocabulary:
        raise PairingError(
            f"the drafter knows {config.sizes.vocabulary} tokens, the target {vocabulary}",
            "use the drafter that was trained for this target",
        )
    if config.target_width != width or config.sizes.width != width:
        raise PairingError(
            f"the drafter is {config.sizes.width} wide for a target of {config.target_width}, "
            f"the target is {width} wide",
            "use the drafter that was trained for this target",
        )
    if max(config.taps) >= depth:
        raise PairingError(
            f"the drafter listens to layer {max(config.taps)}, the target's last is {depth - 1}",
            "use the drafter that was trained for this target",
        )


def build_drafter(
    checkpoint: Checkpoint, ops: Operations, target: SharedTables, depth: int, context: int
) -> BlockDrafter:
    """Builds the drafter of a checkpoint over its target's tables.

    Args:
        checkpoint: the drafter's.
        ops: the back end the target's tables belong to.
        target: embedding and head, used where the checkpoint has none of its own.
        depth: layers of the target.
        context: places to prepare for.
    """
    config = read_config(checkpoint)
    check_pairing(config, *target.embedding.shape, depth)
    tensors = TensorSource(checkpoint.tensors, checkpoint.path.name)
    shape = (config.sizes.vocabulary, config.sizes.width)

    def own_or(name: str, borrowed: Matrix) -> Matrix:
        raw = tensors.take_optional(name, shape)
        return borrowed if raw is None else ops.matrix(raw)

    embedding = own_or("embed_tokens.weight", target.embedding)
    head = own_or("lm_head.weight", target.head)
    backbone = Backbone(config, tensors, ops, embedding, context)
    drafter: BlockDrafter
    if config.selector is None:
        drafter = DFlash(backbone, head, ops)
    else:
        gate = Linear(ops.matrix(tensors.take(_GATE, (config.selector.rank, config.sizes.width))))
        tables = _selector_tables(config, config.selector, tensors, ops, target.embedding)
        drafter = DFlash2(backbone, head, gate, tables, ops)
    tensors.finish()
    return drafter


def _selector_tables(
    config: DrafterConfig,
    selector: SelectorConfig,
    tensors: TensorSource,
    ops: Operations,
    embedding: Matrix,
) -> tuple[Matrix, Matrix]:
    """The predecessor's and successor's tables, stored whole or as factors of the embedding."""

    def table(side: str) -> Matrix:
        factor = f"candidate_selector.{side}_factor"
        if factor in tensors:
            raw = tensors.take(factor, (selector.rank, config.sizes.width))
            return ops.product(embedding, ops.matrix(raw))
        name = f"candidate_selector.{side}_codebook"
        return ops.matrix(tensors.take(name, (config.sizes.vocabulary, selector.rank)))

    before, after = (table(side) for side in _TABLES)
    return before, after
