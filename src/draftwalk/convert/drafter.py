"""A drafter's checkpoint in the one form that all writers start from.

Whatever the layout: tensors under canonical names, rotated by half-split pairs, selector tables
whole if that is wanted, d2t as offsets; tables that are only the target's left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from draftwalk.convert.provenance import Provenance, provenance
from draftwalk.convert.target_facts import TargetFacts
from draftwalk.convert.types import FLOATS, packing
from draftwalk.draft.config import DrafterConfig
from draftwalk.draft.dialect import FINGERPRINT_KEY
from draftwalk.draft.export import embedding_fingerprint
from draftwalk.draft.load import check_pairing
from draftwalk.draft.whole import check_whole
from draftwalk.errors import CheckpointError, PairingError
from draftwalk.quant import PackingFormat
from draftwalk.target.rope import half_split_order
from draftwalk.weights import (
    Checkpoint,
    GgufCheckpoint,
    PlannedTensor,
    RawTensor,
    pack_tensor,
    permute_rows,
)

EMBEDDING, HEAD, D2T, T2D = "embed_tokens.weight", "lm_head.weight", "d2t", "t2d"
FC, FC_SCALE = "fc.weight", "fc.scale"
_RECOMPUTED = "rotary_emb.inv_freq"
_SELECTOR = "candidate_selector."
_SIDES = ("predecessor", "successor")
_ROWS_AT_ONCE = 1 << 12


@dataclass(frozen=True, slots=True)
class Drafter:
    """What is to be written.

    Attributes:
        where: the checkpoint it came from, for messages.
        config: what it means.
        settings: the same under Hugging Face's keys.
        tensors: by canonical name.
        source: what is known of the folder it was once converted from.
        target: the model it drafts for, if that is at hand.
        fingerprint: of the embedding that its factors belong to, while it has factors.
        checkpoint: itself.
    """

    where: str
    config: DrafterConfig
    settings: Mapping[str, object]
    tensors: Mapping[str, PlannedTensor]
    source: Provenance | None
    target: TargetFacts | None
    fingerprint: str | None
    checkpoint: Checkpoint


def read_drafter(
    checkpoint: Checkpoint,
    target: TargetFacts | None,
    whole_tables: bool,
    table_type: str | None = None,
) -> Drafter:
    """Reads a drafter of any layout.

    Args:
        checkpoint: the drafter's.
        target: the model it drafts for.
        whole_tables: multiply selector tables out that are stored as factors of the target's
            embedding; other engines know no other.
        table_type: float format of such tables; that of their factors by default.

    Raises:
        CheckpointError: it is damaged, or the target is needed.
        PairingError: it is another target's.
    """
    config = check_whole(checkpoint)
    source = provenance(checkpoint)
    if target is not None:
        check_pairing(config, *_size(target.embedding), target.depth)
    tensors = {
        name: PlannedTensor.of(checkpoint.tensors[name])
        for name in checkpoint.tensors
        if name != T2D and not name.endswith(_RECOMPUTED)
    }
    for name in _borrowed(tensors, source, target):
        del tensors[name]
    if config.interleaved:
        tensors = {name: turned(one, config, back=False) for name, one in tensors.items()}
    fingerprint = _fingerprint(checkpoint)
    if whole_tables and any(f"{_SELECTOR}{side}_factor" in tensors for side in _SIDES):
        tensors = _multiplied_out(tensors, checkpoint.path.name, fingerprint, target, table_type)
        fingerprint = None
    return Drafter(
        checkpoint.path.name,
        config,
        checkpoint.config,
        tensors,
        source,
        target,
        fingerprint,
        checkpoint,
    )


def turned(tensor: PlannedTensor, config: DrafterConfig, back: bool) -> PlannedTensor:
    """Rows of q and k for rotation of half-split pairs, or back to adjacent ones."""
    heads = _turning_heads(tensor.name, config)
    if heads == 0:
        return tensor
    order = half_split_order(heads, config.sizes.head_dim)
    if back:
        order = np.argsort(order)
    return replace(tensor, make=lambda: permute_rows(tensor.made(), order))


def _turning_heads(name: str, config: DrafterConfig) -> int:
    """How many heads the rows of a tensor are of, if they turn."""
    for part, heads in (("q", config.sizes.heads), ("k", config.sizes.kv_heads)):
        if f"self_attn.{part}_norm." in name:
            return 1
        if f"self_attn.{part}_proj." in name:
            return heads
    return 0


def absolute_ids(d2t: RawTensor) -> NDArray[np.int64]:
    """Target ids of the rows of a reduced head, from offsets."""
    offsets = d2t.integers().reshape(-1)
    return offsets + np.arange(len(offsets))


def _size(embedding: RawTensor) -> tuple[int, int]:
    if len(embedding.shape) != 2:
        raise CheckpointError(f"tensor {embedding.name} is no table")
    return embedding.shape[0], embedding.shape[1]


def _borrowed(
    tensors: Mapping[str, PlannedTensor], source: Provenance | None, target: TargetFacts | None
) -> list[str]:
    """Own tables that are only the target's: a layout had to have them, others share them."""
    left = []
    for name in (EMBEDDING, HEAD):
        if name not in tensors:
            continue
        if source is not None and source.layout == "hf":
            if name not in source.dtypes:
                left.append(name)
        elif target is not None and D2T not in tensors:
            other = target.embedding if name == EMBEDDING else target.head
            if _same_values(tensors[name].made(), other):
                left.append(name)
    return left


def _same_values(one: RawTensor, other: RawTensor) -> bool:
    if one.shape != other.shape:
        return False
    if one.format is other.format and np.array_equal(one.data, other.data):
        return True
    return bool(np.array_equal(one.unpack(), other.unpack()))


def _fingerprint(checkpoint: Checkpoint) -> str | None:
    if not isinstance(checkpoint, GgufCheckpoint):
        return None
    told = checkpoint.metadata.get(FINGERPRINT_KEY)
    return told if isinstance(told, str) else None


def _multiplied_out(
    tensors: Mapping[str, PlannedTensor],
    where: str,
    fingerprint: str | None,
    target: TargetFacts | None,
    table_type: str | None,
) -> dict[str, PlannedTensor]:
    """Selector tables in place of their factors."""
    if target is None:
        raise CheckpointError(
            f"{where}: its selector tables are stored as factors of the target's embedding",
            "give the target: --target FILE",
        )
    if fingerprint not in (None, embedding_fingerprint(target.embedding)):
        raise PairingError(
            f"{where}: its selector tables are factors of another embedding than "
            f"{target.checkpoint.path.name} has",
            "give the target it was trained for, in the same file",
        )
    out = dict(tensors)
    for side in _SIDES:
        factor = out.pop(f"{_SELECTOR}{side}_factor", None)
        if factor is not None:
            name = f"{_SELECTOR}{side}_codebook"
            own = factor.format.NAME if factor.format.NAME in FLOATS else "BF16"
            out[name] = _table(name, factor, target.embedding, packing(table_type or own))
    return out


def _table(
    name: str, factor: PlannedTensor, embedding: RawTensor, into: PackingFormat
) -> PlannedTensor:
    """embedding times factor transposed."""
    shape = (embedding.shape[0], factor.shape[0])

    def make() -> RawTensor:
        columns = factor.made().unpack().T
        rows = embedding.unpack()
        table = np.empty(shape, dtype=np.float32)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            np.matmul(rows[part], columns, out=table[part])
        return pack_tensor(name, table, into)

    return PlannedTensor(name, shape, into, make)
