"""`draftwalk info`: what was understood of model files, and whether they belong together."""

from __future__ import annotations

from typing import Annotated

import typer

from draftwalk.cli.options import PlaceOptions, StoreOptions

_FILES = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="Models and drafters; files, folders or known names."),
]
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def info(
    *,
    files: _FILES,
    as_json: _JSON = False,
    place: PlaceOptions,
    store: StoreOptions,
) -> None:
    """Tells what is understood of model files; two of them that do not fit are an error."""
    from draftwalk.cli import understanding

    if not understanding.explain(files, as_json, place, store):
        raise typer.Exit(1)
