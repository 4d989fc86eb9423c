"""A drafter's tensors as a folder stores them: floats, each in the type it had or should have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from draftwalk.convert.casting import cast, cast_integers, is_exact
from draftwalk.convert.drafter import D2T, FC, FC_SCALE, T2D, Drafter, absolute_ids, turned
from draftwalk.convert.provenance import Layout, Provenance
from draftwalk.convert.types import FLOATS, packing
from draftwalk.draft.names import usual_name
from draftwalk.errors import CheckpointError
from draftwalk.quant import IntegerFormat, PackingFormat, formats_by_name
from draftwalk.weights import Fields, PlannedTensor, RawTensor, pack_integers, pack_tensor
from draftwalk.weights.fields import FLAG

_BUFFER, _FACTOR = "rotary_emb.inv_freq", "_factor"


def source_of(drafter: Drafter, layout: Layout) -> Provenance | None:
    """What is known of another folder that it came from, if that was of this layout."""
    source = drafter.source
    usable = source is not None and not source.itself and source.layout == layout
    return source if usable else None


def folder_tensors(
    drafter: Drafter,
    tensors: Mapping[str, PlannedTensor],
    source: Provenance | None,
    outtype: str | None,
) -> tuple[list[PlannedTensor], str]:
    """The folder's tensors, and the format of most.

    Args:
        drafter: what is written.
        tensors: its tensors, or these and more.
        source: the folder they go back to, if it is one.
        outtype: format of all weights. Without it each is as it was in the source folder, or as the
            file has it; norms are narrowed to the type of the matrices where no value changes.

    Raises:
        CheckpointError: a tensor of the source is missing.
    """
    most = outtype or main_format(drafter)
    dtypes = {} if source is None else {usual_name(n): d for n, d in source.dtypes.items()}
    interleaved = source is not None and _interleaved(source.config, drafter.where)
    out: list[PlannedTensor] = []
    for name, tensor in _scaled(tensors).items():
        if isinstance(tensor.format, IntegerFormat):
            out.append(cast_integers(tensor, dtypes.get(name, tensor.format.NAME)))
            continue
        one = turned(tensor, drafter.config, back=True) if interleaved else tensor
        out.append(cast(one, _format(one, outtype or dtypes.get(name), most)))
    if D2T in tensors and (source is None or T2D in dtypes):
        out.append(membership(tensors[D2T], drafter.config.sizes.vocabulary))
    return (out if source is None else _as_named(out, source.dtypes, drafter.where)), most


def main_format(drafter: Drafter) -> str:
    """The float format that most values of the matrices have; packed ones become BF16."""
    values = dict.fromkeys(FLOATS, 0)
    for tensor in drafter.tensors.values():
        if len(tensor.shape) == 2 and not isinstance(tensor.format, IntegerFormat):
            kept = tensor.format.NAME if tensor.format.NAME in FLOATS else "BF16"
            values[kept] += tensor.shape[0] * tensor.shape[1]
    return max(FLOATS, key=lambda name: values[name])


def membership(d2t: PlannedTensor, vocabulary: int) -> PlannedTensor:
    """t2d, which tokens of the target's the drafter knows, from d2t."""
    into = formats_by_name()["BOOL"]
    assert isinstance(into, IntegerFormat)

    def make() -> RawTensor:
        known = np.zeros(vocabulary, dtype=np.int64)
        known[absolute_ids(d2t.made())] = 1
        return pack_integers(T2D, known, into)

    return PlannedTensor(T2D, (vocabulary,), into, make)


def _format(tensor: PlannedTensor, asked: str | None, most: str) -> PackingFormat:
    if asked is not None:
        return packing(asked)
    if len(tensor.shape) == 2:
        return packing(tensor.format.NAME if tensor.format.NAME in FLOATS else most)
    narrow = packing(most)
    return narrow if is_exact(tensor, narrow) else packing("F32")


def _scaled(tensors: Mapping[str, PlannedTensor]) -> dict[str, PlannedTensor]:
    """The scale of the joined features goes into their matrix: folders have no place for it."""
    out = dict(tensors)
    scale = out.pop(FC_SCALE, None)
    if scale is None:
        return out
    matrix = out[FC]
    into = packing(matrix.format.NAME if matrix.format.NAME in FLOATS else "F32")

    def make() -> RawTensor:
        factor = scale.made().unpack().reshape(-1)[0]
        return pack_tensor(FC, matrix.made().unpack() * factor, into)

    out[FC] = PlannedTensor(FC, matrix.shape, into, make)
    return out


def _interleaved(config: Mapping[str, object], where: str) -> bool:
    fields = Fields(config, where)
    keys = ("is_neox_style", "rope_is_neox_style")
    return not all(fields.get(key, FLAG, True) for key in keys)


def _as_named(
    tensors: list[PlannedTensor], dtypes: Mapping[str, str], where: str
) -> list[PlannedTensor]:
    """Under the names of the source, and complete but for buffers and factors of tables."""
    names = {usual_name(name): name for name in dtypes}
    have = {one.name for one in tensors}
    missing = [name for name in names if name not in have and not name.endswith((_BUFFER, _FACTOR))]
    if missing:
        raise CheckpointError(
            f"{where}: tensor {missing[0]} of its source is missing", "the file is incomplete"
        )
    return [one.named(names.get(one.name, one.name)) for one in tensors]
