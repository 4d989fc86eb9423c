"""Answers on stdout, as text or JSON; statistics and errors on stderr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from rich.console import Console

from draftwalk.cli import report
from draftwalk.cli.answer import Asked, Format, answer_many, answer_one
from draftwalk.cli.prompts import Prompt
from draftwalk.cli.show_draft import DraftPainter
from draftwalk.cli.streams import say, write, write_json
from draftwalk.engine import Engine
from draftwalk.result import Result
from draftwalk.step import Step


def print_text(
    engine: Engine, ids: Sequence[int], asked: Asked, show_draft: bool, quiet: bool
) -> bool:
    """Streams one answer; whether it ended well."""
    show: Callable[[Step], None] = _write
    end: Callable[[], None] = _nothing
    if show_draft:
        painter = DraftPainter(engine.tokenizer, Console(highlight=False, emoji=False))
        show, end = painter.paint, painter.finish
        with suppress(OSError):
            Console(stderr=True, highlight=False).print(painter.legend(), soft_wrap=True)
    shown: list[str] = []

    def on_step(step: Step) -> None:
        shown.append(step.text)
        show(step)

    try:
        result = answer_one(engine, ids, asked, on_step)
    except BaseException:
        if "".join(shown):
            end()
            _end_line(shown)
        raise
    end()
    _end_line(shown)
    if not quiet:
        say(report.statistics(result))
    return _told(result)


def print_json(engine: Engine, ids: Sequence[int], asked: Asked) -> bool:
    """One answer as an object; whether it ended well."""
    result = answer_one(engine, ids, asked)
    write_json({**report.result_json(result), **report.models_json(engine)})
    return _told(result)


def print_batch(
    engine: Engine,
    prompts: Sequence[Prompt],
    form: Format,
    asked: Asked,
    parallel: int,
    as_json: bool,
    quiet: bool,
) -> bool:
    """Answers to many prompts, in their order; whether all ended well."""
    results = answer_many(engine, prompts, form, asked, parallel)
    if as_json:
        write_json({**report.batch_json(results), **report.models_json(engine)})
    well = True
    for number, (prompt, result) in enumerate(zip(prompts, results, strict=True), 1):
        taken_on = result.error is None or result.steps
        if taken_on and not as_json:
            write(f"[{number}] {prompt.title}\n{result.text}\n\n")
        well &= _told(result, f"prompt {number}: ")
    if not quiet:
        say(report.batch_statistics(results))
    return well


def _told(result: Result, where: str = "") -> bool:
    """Tells the error of an answer that ended with one; whether there was none."""
    if result.error is not None:
        say(f"error: {where}{result.error}")
    return result.error is None


def _end_line(shown: Sequence[str]) -> None:
    if not "".join(shown).endswith("\n"):
        write("\n")


def _nothing() -> None:
    """Nothing was kept back."""


def _write(step: Step) -> None:
    if step.text:
        write(step.text)
