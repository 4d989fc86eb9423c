"""The command line: one file per verb. stdout is the answer, stderr is all the rest.

Exit codes: 0, 1 when something went wrong, 2 for a wrong option, 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from draftwalk.cli import chat, convert, info, quantize, run, streams
from draftwalk.cli.verb import FAILED, verb

__all__ = ["app", "main"]

_VERBS = (
    (run.run, "Answer a prompt, or a file of prompts."),
    (chat.chat, "Talk with a model."),
    (info.info, "Tell what is understood of model files, and whether they belong together."),
    (convert.convert, "Write a drafter in another layout, or a target's folder as GGUF."),
    (quantize.quantize, "Pack a drafter's matrices in fewer bits."),
)

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _function, _help in _VERBS:
    app.command(help=_help)(verb(_function))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"draftwalk {version('draftwalk')}")
        raise typer.Exit


@app.callback()
def _draftwalk(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show it.")
    ] = False,
) -> None:
    """Lossless speculative decoding with DFlash and DFlash2 drafters."""


def main() -> None:
    """Runs the command line; the entry point of the `draftwalk` script."""
    streams.open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every character
    try:
        with streams.writing():  # help and the version, which no verb writes
            app()
    except streams.StdoutError as error:
        streams.say(f"error: {error}")
        sys.exit(FAILED)
