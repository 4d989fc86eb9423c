"""A drafter's tensors as a GGUF file stores them: names, formats, absolute ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftwalk.convert.casting import cast
from draftwalk.convert.drafter import D2T, EMBEDDING, HEAD, Drafter, absolute_ids
from draftwalk.convert.types import FLOATS, MIXES, Mix, Override, choose, is_matrix
from draftwalk.draft.dialect import DIALECT
from draftwalk.errors import CheckpointError, UserError
from draftwalk.quant import Format, IntegerFormat, formats_by_name
from draftwalk.weights import PlannedTensor, RawTensor, name_map, pack_integers


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor of the file, and what became of it.

    Attributes:
        tensor: ready to be written.
        before: its format in the source.
        wanted: the format asked for, where that could not be had.
    """

    tensor: PlannedTensor
    before: Format
    wanted: str


def gguf_tensors(
    drafter: Drafter, mix: Mix | None, overrides: Sequence[Override], requantize: bool
) -> list[Stored]:
    """All tensors of the file.

    Args:
        drafter: what is written.
        mix: the type of the matrices; without one they keep theirs.
        overrides: other types for some of them.
        requantize: whether a matrix may be packed from another packed one.

    Raises:
        UserError: an override that finds no matrix, or packing again that was not allowed.
        CheckpointError: a tensor that has no place in the file.
    """
    tensors = dict(drafter.tensors)
    tied = drafter.settings.get("tie_word_embeddings") is True
    if EMBEDDING in tensors and HEAD not in tensors and not tied:  # GGUF would tie them
        if drafter.target is None:
            raise CheckpointError(
                f"{drafter.where} has an embedding of its own and the target's head",
                "give the target: --target FILE",
            )
        tensors[HEAD] = PlannedTensor.of(drafter.target.head)
    names = name_map(DIALECT)
    renamed: list[PlannedTensor] = []
    for name, tensor in tensors.items():
        gguf = names.gguf(name)
        if gguf is None:
            raise CheckpointError(f"{drafter.where}: tensor {name} has no place in a GGUF drafter")
        renamed.append(tensor.named(gguf))
    for override in overrides:
        if not any(_found(override, tensor) for tensor in renamed):
            raise UserError(
                f"--tensor {override.pattern.pattern}: no matrix of that name",
                "names are GGUF's, as blk.0.attn_v.weight",
            )
    return [_stored(tensor, drafter, mix, overrides, requantize) for tensor in renamed]


def _found(override: Override, tensor: PlannedTensor) -> bool:
    return is_matrix(tensor.name, tensor.shape) and bool(override.pattern.search(tensor.name))


def _stored(
    tensor: PlannedTensor,
    drafter: Drafter,
    mix: Mix | None,
    overrides: Sequence[Override],
    requantize: bool,
) -> Stored:
    if isinstance(tensor.format, IntegerFormat):
        return Stored(_ids(tensor), tensor.format, tensor.format.NAME)
    name, shape = tensor.name, tensor.shape
    # Factors are small, and every error in one is in all rows of its table.
    kept = is_matrix(name, shape) and (mix is None or name.endswith("_factor.weight"))
    if kept and not any(_found(override, tensor) for override in overrides):
        return Stored(tensor, tensor.format, tensor.format.NAME)
    whole = mix or MIXES["F32"]
    choice = choose(name, shape, whole, drafter.config.sizes.depth, False, overrides)
    packed = tensor.format.NAME not in FLOATS
    if packed and choice.format is not tensor.format and not requantize:
        raise UserError(
            f"tensor {name} is {tensor.format.NAME} already; packing it again as "
            f"{choice.format.NAME} adds errors to errors",
            "start from the unquantised drafter, or say --allow-requantize",
        )
    return Stored(cast(tensor, choice.format), tensor.format, choice.wanted)


def _ids(tensor: PlannedTensor) -> PlannedTensor:
    """d2t as GGUF has it: absolute ids."""
    if tensor.name != D2T:
        raise CheckpointError(f"tensor {tensor.name} holds whole numbers where weights are needed")
    into = formats_by_name()["I64"]
    assert isinstance(into, IntegerFormat)

    def make() -> RawTensor:
        return pack_integers(D2T, absolute_ids(tensor.made()), into)

    return replace(tensor, format=into, make=make)
