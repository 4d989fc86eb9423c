"""From a checkpoint to a target."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from draftwalk import registry
from draftwalk.errors import CheckpointError
from draftwalk.ops import Operations
from draftwalk.target import architectures
from draftwalk.target.blueprint import Architecture, Blueprint
from draftwalk.target.decoder import Decoder
from draftwalk.weights import Checkpoint
from draftwalk.weights.config_keys import HARMLESS, NEUTRAL
from draftwalk.weights.fields import TEXT, Fields
from draftwalk.weights.source import TensorSource


@cache
def known_architectures() -> Mapping[str, Architecture]:
    """Architectures by the configuration's `model_type`."""
    found = registry.find(architectures.__name__, "ARCHITECTURE", Architecture)
    return MappingProxyType(registry.index(found, lambda one: one.names))


def read_blueprint(checkpoint: Checkpoint) -> tuple[Blueprint, TensorSource]:
    """What the checkpoint's architecture makes of its configuration.

    Raises:
        CheckpointError: an architecture that is not implemented, or a configuration it refuses.
    """
    config = Fields(checkpoint.config, checkpoint.path.name)
    if config.raw("quantization_config") is not None:
        config.fail("quantised safetensors are not implemented", "use a GGUF file")
    kind = config.need("model_type", TEXT)
    architecture = registry.pick(
        known_architectures(), kind, f"{checkpoint.path.name}: architecture", CheckpointError
    )
    tensors = TensorSource(checkpoint.tensors, checkpoint.path.name)
    blueprint = architecture.blueprint(config, tensors)
    config.finish(HARMLESS, NEUTRAL)
    return blueprint, tensors


def build_target(checkpoint: Checkpoint, ops: Operations, context: int | None = None) -> Decoder:
    """Builds the target of a checkpoint.

    Args:
        checkpoint: configuration and weights.
        ops: the back end.
        context: positions to prepare for; all the model was made for by default.
    """
    blueprint, tensors = read_blueprint(checkpoint)
    most = blueprint.sizes.context
    decoder = Decoder(blueprint, tensors, ops, most if context is None else min(context, most))
    tensors.finish()
    return decoder
