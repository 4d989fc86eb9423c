"""Drafters whose selector tables are stored as factors of their target's embedding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from draftwalk.convert.drafter import Drafter, read_drafter
from draftwalk.convert.types import Mix
from draftwalk.convert.writing import write_gguf_drafter
from draftwalk.weights import Checkpoint, PlannedTensor, RawTensor


def with_factors(drafter: Drafter, factors: Mapping[str, RawTensor], fingerprint: str) -> Drafter:
    """The drafter with factors in place of its selector's tables.

    Args:
        drafter: a DFlash2 drafter.
        factors: "predecessor" and "successor" [rank, width].
        fingerprint: of the embedding the factors belong to.
    """
    tensors = {name: one for name, one in drafter.tensors.items() if not name.endswith("_codebook")}
    for side, raw in factors.items():
        name = f"candidate_selector.{side}_factor"
        tensors[name] = PlannedTensor.of(raw).named(name)
    # The folder it came from had tables; without them there is no way back to it.
    return replace(drafter, tensors=tensors, fingerprint=fingerprint, source=None)


def write_factored(
    path: Path,
    checkpoint: Checkpoint,
    mix: Mix,
    factors: Mapping[str, RawTensor],
    fingerprint: str,
) -> None:
    """Writes a GGUF drafter with factors and without a tokenizer; the factors keep their format.

    Args:
        path: the file.
        checkpoint: the drafter; the selector's tables in it are left out.
        mix: type of the other matrices.
        factors: "predecessor" and "successor" [rank, width].
        fingerprint: of the embedding the factors belong to.
    """
    drafter = with_factors(read_drafter(checkpoint, None, whole_tables=False), factors, fingerprint)
    write_gguf_drafter(path, drafter, {}, mix, (), requantize=True, progress=lambda done, of: None)
