"""Writers of drafters: a GGUF file or a folder, read again before it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from draftwalk.convert.drafter import Drafter
from draftwalk.convert.drafter_folder import hf_config_text
from draftwalk.convert.drafter_gguf import gguf_metadata, notes_for_llama_cpp
from draftwalk.convert.drafter_speculators import (
    notes_for_speculators,
    speculators_config_text,
    speculators_tensors,
)
from draftwalk.convert.folder_tensors import folder_tensors, source_of
from draftwalk.convert.gguf_tensors import Stored, gguf_tensors
from draftwalk.convert.metadata import Metadata
from draftwalk.convert.same import differences
from draftwalk.convert.types import Mix, Override
from draftwalk.draft.load import read_config
from draftwalk.errors import CheckpointError
from draftwalk.models import open_model
from draftwalk.quant import Format
from draftwalk.weights import PlannedTensor, write_gguf, write_safetensors
from draftwalk.weights.safetensors_folder import CONFIG, WEIGHTS

Container = Literal["gguf", "hf", "speculators"]
Progress = Callable[[int, int], None]

_FAULT = "nothing was kept; this is a fault of the converter"


@dataclass(frozen=True, slots=True)
class Report:
    """What was written.

    Attributes:
        path: where.
        what: in words, "DFlash2 drafter".
        container: its layout.
        formats: number of tensors by format.
        bytes: of all tensors.
        fallbacks: tensors that did not get the format that was wanted: name, width, wanted, got.
        notes: what a user should know.
    """

    path: Path
    what: str
    container: Container
    formats: Counter[str]
    bytes: int
    fallbacks: tuple[tuple[str, int, str, str], ...]
    notes: tuple[str, ...]


def report(
    path: Path, what: str, container: Container, stored: Sequence[Stored], notes: Sequence[str]
) -> Report:
    """Of tensors that were written."""
    fallbacks = [
        (one.tensor.name, one.tensor.shape[-1], one.wanted, one.tensor.format.NAME)
        for one in stored
        if one.wanted != one.tensor.format.NAME
    ]
    return Report(
        path,
        what,
        container,
        Counter(one.tensor.format.NAME for one in stored),
        sum(one.tensor.bytes for one in stored),
        tuple(fallbacks),
        tuple(notes),
    )


def write_gguf_file(
    path: Path,
    metadata: Metadata,
    tensors: Sequence[PlannedTensor],
    progress: Progress,
) -> None:
    """A GGUF file of everything that is given."""
    total = sum(one.bytes for one in tensors)
    write_gguf(path, metadata, tensors, progress=lambda done: progress(done, total))


def write_gguf_drafter(
    path: Path,
    drafter: Drafter,
    tokenizer: Metadata,
    mix: Mix | None,
    overrides: Sequence[Override],
    requantize: bool,
    progress: Progress,
) -> tuple[list[Stored], list[str]]:
    """A GGUF file; what is in it, and notes."""
    stored = gguf_tensors(drafter, mix, overrides, requantize)
    metadata = gguf_metadata(drafter, mix, tokenizer)
    write_gguf_file(path, metadata, [one.tensor for one in stored], progress)
    _check(path, drafter, len(stored))
    return stored, notes_for_llama_cpp(drafter)


def write_folder(
    path: Path, drafter: Drafter, container: Container, outtype: str | None, progress: Progress
) -> tuple[list[Stored], list[str]]:
    """A folder of either layout; what is in it, and notes."""
    if container == "hf":
        source = source_of(drafter, "hf")
        tensors, most = folder_tensors(drafter, drafter.tensors, source, outtype)
        text, notes = hf_config_text(drafter, most, outtype), []
    else:
        tensors, most = speculators_tensors(drafter, outtype)
        text = speculators_config_text(drafter, most, outtype)
        notes = notes_for_speculators(drafter)
    total = sum(one.bytes for one in tensors)
    path.mkdir()
    (path / CONFIG).write_text(text, encoding="utf-8")
    write_safetensors(path / WEIGHTS, tensors, lambda done: progress(done, total))
    _check(path, drafter, len(tensors))
    formats: list[Format] = [one.format for one in tensors]
    stored = [Stored(one, of, of.NAME) for one, of in zip(tensors, formats, strict=True)]
    return stored, notes


def _check(path: Path, drafter: Drafter, count: int) -> None:
    """Whether what was written says the same as what was read.

    Raises:
        CheckpointError: it does not; a fault of ours, and no file to hand on.
    """
    try:
        written = open_model(path)
        differing = differences(read_config(written), drafter.config)
    except CheckpointError as error:
        raise CheckpointError(
            f"{drafter.where}: what was written cannot be read: {error.what}", _FAULT
        ) from error
    if len(written.tensors) != count:
        differing.append(f"{len(written.tensors)} of {count} tensors")
    if differing:
        raise CheckpointError(
            f"{drafter.where}: what was written does not say the same: " + ", ".join(differing),
            _FAULT,
        )
