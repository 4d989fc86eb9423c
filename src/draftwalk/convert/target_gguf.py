"""A target's Hugging Face folder as a GGUF file.

What all architectures have in common is written here, the rest is each one's own `Export`. A GGUF
file cannot say everything that a configuration can (layers in another order, another scale of the
queries), and a setting that is lost becomes wrong text; so the file is read back before it gets
its name, and must describe the same model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch

from draftwalk.convert.casting import cast
from draftwalk.convert.gguf_tensors import Stored
from draftwalk.convert.metadata import Metadata, size_keys
from draftwalk.convert.tokenizer_gguf import tokenizer_keys
from draftwalk.convert.types import MIXES, Mix, Override, choose, packing
from draftwalk.errors import CheckpointError
from draftwalk.ops.shapes import ShapeOperations
from draftwalk.quant import IntegerFormat
from draftwalk.target.blueprint import Architecture, Blueprint, Sizes
from draftwalk.target.load import build_target, known_architectures, read_blueprint
from draftwalk.target.rope import rope_fields
from draftwalk.weights import (
    Checkpoint,
    Fields,
    GgufCheckpoint,
    GgufFile,
    PlannedTensor,
    RawTensor,
    SafetensorsFolder,
    name_map,
    pack_tensor,
    permute_rows,
    write_gguf,
)
from draftwalk.weights.fields import FLAG, INDEX, NUMBER, POSITIVE, TEXT, Kind
from draftwalk.weights.source import is_recomputed

_HEAD = "lm_head.weight"
_QUANTIZATION_VERSION = 2
# Recommended sampling, as newer files name it.
_SAMPLING: Mapping[str, tuple[str, Kind[float]]] = {
    "temperature": ("temp", NUMBER),
    "top_k": ("top_k", INDEX),
    "top_p": ("top_p", NUMBER),
    "min_p": ("min_p", NUMBER),
    "repetition_penalty": ("penalty_repeat", NUMBER),
}


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A GGUF file to be written.

    Attributes:
        metadata: all keys.
        stored: all tensors.
    """

    metadata: Metadata
    stored: Sequence[Stored]


def target_file(
    checkpoint: Checkpoint,
    mix: Mix | None = None,
    overrides: Sequence[Override] = (),
    tokenizer: Metadata | None = None,
) -> TargetFile:
    """A target as a GGUF file.

    Args:
        checkpoint: a Hugging Face folder of an architecture that is implemented.
        mix: the type of the matrices; the source's own without one.
        overrides: other types for some of them, by GGUF name.
        tokenizer: keys of another tokenizer than the folder's own.

    Raises:
        CheckpointError: it is a GGUF file already, or one that cannot be read or said.
    """
    if not isinstance(checkpoint, SafetensorsFolder):
        raise CheckpointError(
            f"{checkpoint.path.name} is a GGUF file already", "convert the folder it was made from"
        )
    blueprint = build_target(checkpoint, ShapeOperations()).blueprint  # it is whole
    config = Fields(checkpoint.config, checkpoint.path.name)
    architecture = known_architectures()[config.need("model_type", TEXT)]
    mix = mix or _own_mix(checkpoint)
    stored = _tensors(checkpoint, architecture, blueprint, mix, overrides)
    metadata: Metadata = {
        "general.architecture": architecture.dialect.name,
        "general.type": "model",
        "general.name": checkpoint.path.resolve().name or "model",
        "general.file_type": mix.number,
    }
    if mix.quantised:
        metadata["general.quantization_version"] = _QUANTIZATION_VERSION
    metadata |= _sampling(Fields(checkpoint.generation, checkpoint.path.name))
    own = {**size_keys(blueprint.sizes), **_rope(config, architecture)}
    own |= architecture.export.settings(config)
    metadata |= {f"{architecture.dialect.name}.{key}": value for key, value in own.items()}
    own_tokenizer = tokenizer_keys(checkpoint) if tokenizer is None else tokenizer
    return TargetFile({**metadata, **own_tokenizer}, stored)


def write_target(
    path: Path,
    file: TargetFile,
    checkpoint: Checkpoint,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Writes the file and reads it back.

    Args:
        path: where to; not the name it is to have, for a wrong file is left there.
        file: what to write.
        checkpoint: the source.
        progress: told the bytes of tensors written so far.

    Raises:
        CheckpointError: the file describes another model than the source.
    """
    write_gguf(path, file.metadata, [one.tensor for one in file.stored], progress=progress)
    _check_same(checkpoint, path)


def _own_mix(checkpoint: Checkpoint) -> Mix:
    """The type that loses nothing: the one of the matrices, if they have one."""
    names = {raw.format.NAME for raw in checkpoint.tensors.values() if len(raw.shape) == 2}
    return MIXES[names.pop()] if len(names) == 1 and names <= MIXES.keys() else MIXES["F32"]


def _rope(config: Fields, architecture: Architecture) -> Metadata:
    """The rope of full layers; kinds of scaling that are tensors in GGUF are not said here."""
    rope = rope_fields(config, "full_attention")
    keys: Metadata = {"rope.freq_base": rope.get("rope_theta", POSITIVE, architecture.export.theta)}
    if rope.get("rope_type", TEXT, rope.get("type", TEXT, "default")) == "linear":
        keys["rope.scaling.type"] = "linear"
        keys["rope.scaling.factor"] = rope.need("factor", POSITIVE)
    return keys


def _sampling(generation: Fields) -> Metadata:
    """Recommended sampling, if the model is meant to be sampled from."""
    if not generation.get("do_sample", FLAG, False):
        return {}
    keys: Metadata = {"general.sampling.temp": 1.0}
    for name, (key, kind) in _SAMPLING.items():
        value = generation.get(name, kind, None)
        if value is not None:
            keys[f"general.sampling.{key}"] = value
    return keys


def _tensors(
    checkpoint: Checkpoint,
    architecture: Architecture,
    blueprint: Blueprint,
    mix: Mix,
    overrides: Sequence[Override],
) -> list[Stored]:
    names = name_map(architecture.dialect)
    stored: list[Stored] = []
    plans = [
        _planned(raw, architecture, blueprint.sizes)
        for name, raw in checkpoint.tensors.items()
        if not (is_recomputed(name) or (blueprint.tied and name == _HEAD))
    ]
    config = Fields(checkpoint.config, checkpoint.path.name)
    for name, values in architecture.export.vectors(config, blueprint.sizes).items():
        plans.append(PlannedTensor.of(pack_tensor(name, values, packing("F32"))))
    for plan in plans:
        gguf = names.gguf(plan.name)
        if gguf is None:
            raise CheckpointError(
                f"{checkpoint.path.name}: tensor {plan.name} not used by this architecture",
                "the checkpoint has parts that are not implemented",
            )
        choice = choose(gguf, plan.shape, mix, blueprint.sizes.depth, blueprint.tied, overrides)
        stored.append(Stored(cast(plan.named(gguf), choice.format), plan.format, choice.wanted))
    return stored


def _planned(raw: RawTensor, architecture: Architecture, sizes: Sizes) -> PlannedTensor:
    """A tensor in GGUF's order."""
    if isinstance(raw.format, IntegerFormat):
        raise CheckpointError(f"tensor {raw.name} holds whole numbers where weights are needed")
    export = architecture.export
    order = export.order(raw, sizes)
    if order is not None:
        return replace(PlannedTensor.of(raw), make=lambda: permute_rows(raw, order))
    if export.norm_shift and raw.name.endswith("norm.weight"):
        shift = np.float32(export.norm_shift)
        into = packing("F32")
        return replace(
            PlannedTensor.of(raw),
            format=into,
            make=lambda: pack_tensor(raw.name, raw.unpack() + shift, into),
        )
    return PlannedTensor.of(raw)


def _check_same(checkpoint: Checkpoint, path: Path) -> None:
    """The blueprint that the file gives must be the source's."""
    before, _ = read_blueprint(checkpoint)
    config = Fields(checkpoint.config, checkpoint.path.name)
    dialect = known_architectures()[config.need("model_type", TEXT)].dialect
    after, _ = read_blueprint(GgufCheckpoint(GgufFile(path), dialect))
    for field in fields(Blueprint):
        name = field.name
        if name == "norm_offset":  # the sum is stored
            continue
        one, other = getattr(before, name), getattr(after, name)
        if not _alike(one, other):
            shown = "other rope frequencies" if name == "ropes" else f"{name} {other}, not {one}"
            raise CheckpointError(
                f"{checkpoint.path.name}: a GGUF file cannot say its {name}; it would have {shown}"
            )


def _alike(one: object, other: object) -> bool:
    """Equal, up to the rounding of GGUF's floats."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.allclose(one, other, rtol=1e-6, atol=0.0)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, Sizes) and isinstance(other, Sizes):
        return all(_alike(getattr(one, f.name), getattr(other, f.name)) for f in fields(Sizes))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6)
    return one == other
