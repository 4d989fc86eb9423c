"""Drafters from one layout to another, and targets into GGUF.

    convert(open_model(source), destination, "gguf", Options(target=open_model(target)))

Every layout is read into one form (`drafter.py`) and written from it:

* `drafter_gguf.py` and `gguf_tensors.py`: GGUF as llama.cpp has it, `types.py` its types of files.
* `drafter_folder.py` and `folder_tensors.py`: a Hugging Face folder.
* `drafter_speculators.py`: a folder of the `speculators` library.
* `provenance.py`: what is kept of a source, so that a way back is exact.
* `target_gguf.py`, `tokenizer_gguf.py`: targets, and their tokenizers.

Nothing appears under its name before it is whole and was read again (`replacing.py`, `writing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftwalk.convert.drafter import Drafter, read_drafter
from draftwalk.convert.metadata import Metadata
from draftwalk.convert.replacing import replacing
from draftwalk.convert.target_facts import TargetFacts, target_facts
from draftwalk.convert.target_gguf import target_file, write_target
from draftwalk.convert.tokenizer_gguf import tokenizer_keys
from draftwalk.convert.types import FLOATS, Mix, Override, mix_of, override_of
from draftwalk.convert.writing import (
    Container,
    Progress,
    Report,
    report,
    write_folder,
    write_gguf_drafter,
)
from draftwalk.draft.tables import has_mask_row
from draftwalk.draft.whole import is_drafter
from draftwalk.errors import UserError
from draftwalk.fetch.hub.choice import MASK_ROW
from draftwalk.weights import Checkpoint, GgufCheckpoint

__all__ = ["Container", "Options", "Report", "convert", "mix_of", "override_of"]

_TOKENS = "tokenizer.ggml.tokens"


def _nothing(done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to convert.

    Attributes:
        outtype: the type of the file; without one every tensor keeps its own.
        target: the model a drafter drafts for: whose tokenizer, depth and tables it takes.
        overrides: types for some tensors of a GGUF file.
        tokenizer: whether a GGUF file gets one.
        whole_tables: multiply out selector tables that are stored as factors.
        requantize: whether packed matrices may be packed in another format.
        force: replace what is there.
        progress: told the bytes that are written, and of how many.
    """

    outtype: Mix | None = None
    target: Checkpoint | None = None
    overrides: Sequence[Override] = ()
    tokenizer: bool = True
    whole_tables: bool = True
    requantize: bool = False
    force: bool = False
    progress: Progress = _nothing


def convert(source: Checkpoint, destination: Path, to: Container, options: Options) -> Report:
    """Writes a checkpoint in another layout, or in other types.

    Args:
        source: a drafter of any layout, or a target in a folder.
        destination: the file or folder to write.
        to: its layout.
        options: how.

    Raises:
        UserError: it cannot be done, or there is any doubt that it was.
    """
    _spare(destination, source, "what is converted")
    if options.target is not None:
        _spare(destination, options.target, "the target")
    if to != "gguf":
        _check_folder(options)
    if not is_drafter(source):
        return _convert_target(source, destination, to, options)
    if has_mask_row(source):
        raise UserError(
            f"{source.path.name}: {MASK_ROW}, a row of its own for the mask token, is a pickle and "
            "is not read, so what is written would draft otherwise",
            "move it away to convert the drafter without it",
        )
    target = None if options.target is None else target_facts(options.target)
    mix = options.outtype
    floats = mix.format if mix is not None and mix.format in FLOATS else None
    drafter = read_drafter(source, target, options.whole_tables, floats)
    with replacing(destination, options.force) as beside:
        if to == "gguf":
            stored, notes = write_gguf_drafter(
                beside,
                drafter,
                _tokenizer(drafter, target, options.tokenizer),
                options.outtype,
                options.overrides,
                options.requantize,
                options.progress,
            )
        else:
            name = None if options.outtype is None else options.outtype.format
            stored, notes = write_folder(beside, drafter, to, name, options.progress)
    kind = "DFlash" if drafter.config.selector is None else "DFlash2"
    return report(destination, f"{kind} drafter", to, stored, notes)


def _convert_target(
    source: Checkpoint, destination: Path, to: Container, options: Options
) -> Report:
    """Targets only go from folders to GGUF."""
    if to != "gguf":
        raise UserError(f"{source.path.name} is no drafter; targets are converted to GGUF only")
    if options.target is not None:
        raise UserError(f"{source.path.name} is no drafter, so it has no target")
    tokenizer: Metadata | None = None if options.tokenizer else {"tokenizer.ggml.model": "none"}
    file = target_file(source, options.outtype, options.overrides, tokenizer)
    total = sum(one.tensor.bytes for one in file.stored)
    with replacing(destination, options.force) as beside:
        write_target(beside, file, source, lambda done: options.progress(done, total))
    return report(destination, source.architecture, to, file.stored, ())


def _spare(destination: Path, read: Checkpoint, what: str) -> None:
    """Refuses to write over what is read, or into its folder."""
    place, taken = destination.resolve(), read.path.resolve()
    if place == taken:
        raise UserError(f"{destination} is {what}", "name another place")
    if read.path.is_dir() and place.is_relative_to(taken):
        raise UserError(f"{destination} lies in {what}", "name another place")


def _check_folder(options: Options) -> None:
    """Folders hold floats."""
    if options.outtype is not None and options.outtype.format not in FLOATS:
        raise UserError(
            f"a folder of safetensors cannot hold {options.outtype.name}",
            "types of a folder: " + ", ".join(FLOATS),
        )
    if options.overrides:
        raise UserError("--tensor chooses types of a GGUF file", "write one: --to gguf")


def _tokenizer(drafter: Drafter, target: TargetFacts | None, wanted: bool) -> Metadata:
    """The keys about tokens: the target's, or those that a GGUF source has already."""
    if not wanted:
        return {}
    if target is not None:
        return tokenizer_keys(target.checkpoint)
    source = drafter.checkpoint
    if isinstance(source, GgufCheckpoint):
        return tokenizer_keys(source) if _TOKENS in source.metadata else {}
    raise UserError(
        f"{drafter.where}: a GGUF drafter carries its target's tokenizer",
        "give the target: --target DIR_OR_FILE, or leave it out: --no-tokenizer",
    )
