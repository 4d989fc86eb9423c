"""The command line: one file per verb. stdout is the answer, stderr is all the rest.

Exit codes: 0, 1 when something went wrong, 2 for a wrong option, 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from draftwalk.cli import chat, convert, info, quantize, run, streams, train
from draftwalk.cli.verb import FAILED, verb

__all__ = ["app", "main"]

_VERBS = (
    (run.run, "Answer a prompt, or a file of prompts."),
    (chat.chat, "Talk with a model."),
    (info.info, "Tell what is understood of model files, and whether they belong together."),
    (convert.convert, "Write a drafter in another layout, or a target's folder as GGUF."),
    (quantize.quantize, "Pack a drafter's matrices in fewer bits."),
)

_STAGES = (
    ("all", train.everything, "Make answers, train on them and measure: everything."),
    ("answers", train.answers, "Let the target answer prompts, and keep what a drafter hears."),
    ("fit", train.fit, "Train a drafter on answers, or go on with it."),
    ("measure", train.measure, "Say what a drafter is worth on answers it has not learned."),
    ("curves", train.curves, "Print and draw the learning curves of a run."),
)


def _group() -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _training() -> typer.Typer:
    stages = _group()
    for name, function, text in _STAGES:
        stages.command(name, help=text)(verb(function))
    return stages


app = _group()
for _function, _help in _VERBS:
    app.command(help=_help)(verb(_function))
app.add_typer(_training(), name="train", help="Train a drafter for a target, at once or in stages.")


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
