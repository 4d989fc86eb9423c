"""`draftwalk convert`: a drafter in another layout, or a target's folder as GGUF."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from draftwalk.cli.options import StoreOptions

GGUF_ENDING = ".gguf"
MODEL_FORMS = "GGUF file, folder, known name, or owner/name[:quant] of the Hugging Face hub"

SOURCE = Annotated[str, typer.Argument(metavar="SRC", help=f"The model: {MODEL_FORMS}.")]
DESTINATION = Annotated[Path, typer.Argument(metavar="DST", help="The file or folder to write.")]
TARGET = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="MODEL",
        help="The model a drafter drafts for, likewise: its tokenizer goes into a GGUF file, its "
        "depth and tables into folders.",
    ),
]
TENSORS = Annotated[
    list[str] | None,
    typer.Option(
        "--tensor",
        metavar="PATTERN=TYPE",
        help="Type of the matrices in whose GGUF name the pattern is found. May be repeated.",
    ),
]
NO_TOKENIZER = Annotated[
    bool, typer.Option("--no-tokenizer", help="Write a GGUF drafter without a tokenizer.")
]
REQUANTIZE = Annotated[
    bool,
    typer.Option("--allow-requantize", help="Pack matrices again that are packed already."),
]
FORCE = Annotated[bool, typer.Option("-f", "--force", help="Replace what is there.")]
JSON = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object, every tensor of another type in it."),
]


class Layout(StrEnum):
    """What can be written."""

    GGUF = "gguf"
    HF = "hf"
    SPECULATORS = "speculators"


_TO = Annotated[
    Layout | None,
    typer.Option(
        "--to", help="The layout; needed unless DST ends in .gguf. Folders are hf or speculators."
    ),
]
_OUTTYPE = Annotated[
    str | None,
    typer.Option(
        "--outtype",
        metavar="TYPE",
        help="f32, f16, bf16, q8_0 or another type of quantize; each tensor keeps its own by "
        "default.",
    ),
]


def convert(
    *,
    source: SOURCE,
    destination: DESTINATION,
    target: TARGET = None,
    to: _TO = None,
    outtype: _OUTTYPE = None,
    tensor: TENSORS = None,
    no_tokenizer: NO_TOKENIZER = False,
    allow_requantize: REQUANTIZE = False,
    force: FORCE = False,
    as_json: JSON = False,
    store: StoreOptions,
) -> None:
    """Writes a drafter as GGUF, Hugging Face folder or speculators folder; targets as GGUF."""
    from draftwalk.cli import conversion

    if to is None:
        if destination.suffix.lower() != GGUF_ENDING:
            raise typer.BadParameter("say what to write: --to gguf, --to hf or --to speculators")
        to = Layout.GGUF
    conversion.run(
        conversion.Job(
            source,
            destination,
            target,
            to.value,
            outtype,
            tuple(tensor or ()),
            not no_tokenizer,
            allow_requantize,
            force,
        ),
        store,
        as_json,
    )
