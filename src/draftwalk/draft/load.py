"""From a checkpoint to a drafter: its kind, its parts, and whether it fits the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from draftwalk.draft.backbone import Backbone
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.config import DrafterConfig, SelectorConfig
from draftwalk.draft.dflash import DFlash
from draftwalk.draft.dflash2 import DFlash2
from draftwalk.draft.names import FEATURES
from draftwalk.draft.tables import TableSource, warn_of_mask_row
from draftwalk.draft.vocabulary import MAP, MASK
from draftwalk.errors import CheckpointError, PairingError
from draftwalk.ops import Linear, Matrix, Operations
from draftwalk.ops.memory import KVType
from draftwalk.quant import IntegerFormat
from draftwalk.target import SharedTables
from draftwalk.weights import Checkpoint, RawTensor
from draftwalk.weights.source import TensorSource

_GATE = "candidate_selector.hidden_projection.weight"
_TABLES = ("predecessor", "successor")
# How tensors of drafters that are not implemented begin.
_OTHERS = {"markov_": "DSpark", "confidence_head": "DSpark", "midlayer.": "EAGLE-3", "mtp.": "MTP"}


def read_config(checkpoint: Checkpoint) -> DrafterConfig:
    """The drafter's configuration; tensors decide between DFlash and DFlash2.

    Raises:
        CheckpointError: a drafter of another kind, or configuration and tensors disagree.
    """
    where = checkpoint.path.name
    _refuse_others(checkpoint, where)
    config = DrafterConfig.read(checkpoint.config, where)
    if (config.selector is not None) != (_GATE in checkpoint.tensors):
        found = "key selector_rank" if config.selector is not None else f"tensor {_GATE}"
        lacks = f"tensor {_GATE}" if config.selector is not None else "key selector_rank"
        raise CheckpointError(f"{where}: {found} is a DFlash2 drafter's, but there is no {lacks}")
    _check_features(config, checkpoint.tensors, where)
    _check_weights(checkpoint.tensors, where)
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
    checkpoint: Checkpoint,
    ops: Operations,
    target: SharedTables,
    depth: int,
    context: int,
    vocabulary: Iterable[int] | None = None,
    kv: KVType | None = None,
) -> BlockDrafter:
    """Builds the drafter of a checkpoint over its target's tables.

    Args:
        checkpoint: the drafter's.
        ops: the back end the target's tables belong to.
        target: embedding and head, used where the checkpoint has none of its own.
        depth: layers of the target.
        context: places to prepare for.
        vocabulary: ids of the tokens it may propose, in place of those the checkpoint lists.
        kv: how its K/V are stored; as the back end stores the target's by default.
    """
    config = read_config(checkpoint)
    check_pairing(config, *target.embedding.shape, depth)
    warn_of_mask_row(checkpoint)
    return assemble(checkpoint, config, ops, target, context, vocabulary, kv)


def assemble(
    checkpoint: Checkpoint,
    config: DrafterConfig,
    ops: Operations,
    target: SharedTables,
    context: int,
    vocabulary: Iterable[int] | None,
    kv: KVType | None,
) -> BlockDrafter:
    """The same over tables that are known to fit.

    Raises:
        CheckpointError: the tensors are not what the configuration says.
    """
    _check_finite(checkpoint)
    where = checkpoint.path.name
    tensors = TensorSource(checkpoint.tensors, where)
    tied = checkpoint.config.get("tie_word_embeddings") is True
    source = TableSource(config, tensors, tied, ops, target, where)
    tables = source.take(vocabulary)
    backbone = Backbone(config, tensors, ops, tables.embedding, context, kv)
    drafter: BlockDrafter
    if config.selector is None:
        drafter = DFlash(backbone, tables.head, ops, tables.vocabulary)
    else:
        gate = Linear(ops.matrix(tensors.take(_GATE, (config.selector.rank, config.sizes.width))))
        selector = _selector_tables(config, config.selector, tensors, ops, target.embedding)
        drafter = DFlash2(backbone, tables.head, gate, selector, ops, tables.vocabulary)
    tensors.finish()
    return drafter


def _refuse_others(checkpoint: Checkpoint, where: str) -> None:
    """Drafters of other kinds, by the name of the kind."""
    for name in checkpoint.tensors:
        kind = next((kind for start, kind in _OTHERS.items() if name.startswith(start)), None)
        if kind is not None:
            raise CheckpointError(
                f"{where}: tensor {name} is a {kind} drafter's, a kind that is not implemented",
                "DFlash and DFlash2 are",
            )
    config = checkpoint.config
    own = config.get("dflash_config")
    nested = own.get("projector_type") if isinstance(own, dict) else None
    for key, value in (
        ("dflash_config.projector_type", nested),
        ("projector_type", config.get("projector_type")),
    ):
        if value == "domino":
            raise CheckpointError(
                f"{where}: key {key} is a Domino drafter's, a kind that is not implemented",
                "DFlash and DFlash2 are",
            )


def _check_features(config: DrafterConfig, tensors: Mapping[str, RawTensor], where: str) -> None:
    """Whether the fusion takes as many values as the taps give: a tap may have been lost."""
    raw = tensors.get(FEATURES)
    expected = (config.sizes.width, len(config.taps) * config.target_width)
    if raw is not None and raw.shape != expected:
        raise CheckpointError(
            f"{where}: tensor {FEATURES} has shape {list(raw.shape)}, expected {list(expected)}",
            f"{len(config.taps)} target layers of {config.target_width} values are tapped",
        )


def _check_weights(tensors: Mapping[str, RawTensor], where: str) -> None:
    """Whole numbers are maps, never weights."""
    for name, raw in tensors.items():
        if isinstance(raw.format, IntegerFormat) and name not in (MAP, MASK):
            raise CheckpointError(
                f"{where}: tensor {name} holds whole numbers where weights are needed"
            )


def _check_finite(checkpoint: Checkpoint) -> None:
    """Refuses weights that are NaN or infinite: they would draft nonsense, and nobody knew why.

    Raises:
        CheckpointError: names the tensor.
    """
    for name, raw in checkpoint.tensors.items():
        if not raw.is_finite():
            raise CheckpointError(
                f"{checkpoint.path.name}: tensor {name} has values that are not finite",
                "the checkpoint is damaged, or its training went astray",
            )


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
