"""`draftwalk info`: what was understood of model files, and whether they belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from draftwalk.cli.convert import MODEL_FORMS
from draftwalk.cli.options import PlaceOptions, StoreOptions

_FILES = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help=f"Targets and drafters: {MODEL_FORMS}."),
]
_LIST = Annotated[
    Path | None,
    typer.Option(
        "--draft-vocabulary",
        metavar="FILE",
        help="Tokens the drafter may propose, as `draftwalk run` takes them.",
    ),
]
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def info(
    *,
    files: _FILES,
    draft_vocabulary: _LIST = None,
    as_json: _JSON = False,
    place: PlaceOptions,
    store: StoreOptions,
) -> None:
    """Tells what is understood of model files; two of them that do not fit are an error."""
    from draftwalk.cli import understanding

    if not understanding.explain(files, draft_vocabulary, as_json, place, store):
        raise typer.Exit(1)
