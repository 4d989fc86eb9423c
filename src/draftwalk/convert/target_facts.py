"""What a drafter's file takes from its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from draftwalk.draft.pairing import EMBEDDING
from draftwalk.errors import CheckpointError
from draftwalk.weights import Checkpoint, Fields, GgufCheckpoint, RawTensor
from draftwalk.weights.fields import FLAG, LAYERS, MAPPING

_HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """A target as seen from its drafter.

    Attributes:
        checkpoint: itself.
        embedding: [V, H].
        head: the same where it is tied.
        depth: number of layers.
        tied: whether the head is the embedding.
        many_planes: whether its positions have several planes (M-RoPE).
    """

    checkpoint: Checkpoint
    embedding: RawTensor
    head: RawTensor
    depth: int
    tied: bool
    many_planes: bool


def target_facts(checkpoint: Checkpoint) -> TargetFacts:
    """Reads a target.

    Raises:
        CheckpointError: it is none.
    """
    where = checkpoint.path.name
    if EMBEDDING not in checkpoint.tensors:
        raise CheckpointError(
            f"{where}: tensor {EMBEDDING} is missing", "--target must be the model that verifies"
        )
    config = Fields(_of_text(checkpoint.config), where)
    embedding = checkpoint.tensors[EMBEDDING]
    own_head = checkpoint.tensors.get(_HEAD)
    tied = config.get("tie_word_embeddings", FLAG, own_head is None) or own_head is None
    return TargetFacts(
        checkpoint,
        embedding,
        embedding if tied or own_head is None else own_head,
        config.need("num_hidden_layers", LAYERS),
        tied,
        _has_many_planes(checkpoint, config),
    )


def _of_text(config: Mapping[str, object]) -> Mapping[str, object]:
    """The part about text, where a configuration has several parts."""
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, dict) else config


def _has_many_planes(checkpoint: Checkpoint, config: Fields) -> bool:
    if isinstance(checkpoint, GgufCheckpoint):
        return f"{checkpoint.file.architecture}.rope.dimension_sections" in checkpoint.metadata
    tables = (config.get(key, MAPPING, {}) for key in ("rope_parameters", "rope_scaling"))
    return any("mrope_section" in table for table in tables)
