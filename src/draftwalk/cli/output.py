"""Answers on stdout, as text or JSON; statistics and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console

from draftwalk.cli import report
from draftwalk.cli.answer import Asked, Format, answer
from draftwalk.cli.prompts import Prompt
from draftwalk.cli.show_draft import DraftPainter
from draftwalk.cli.verb import say
from draftwalk.engine import Engine
from draftwalk.errors import UserError
from draftwalk.loop import Step
from draftwalk.result import Result


def answer_one(
    engine: Engine, ids: Sequence[int], asked: Asked, on_step: Callable[[Step], None] | None = None
) -> Result:
    """One answer; what keeps it from starting is raised."""
    (outcome,) = answer(engine, [lambda: ids], asked, 1, on_step or (lambda _: None)).outcomes
    if isinstance(outcome, UserError):
        raise outcome
    return outcome


def print_text(
    engine: Engine, ids: Sequence[int], asked: Asked, show_draft: bool, quiet: bool
) -> bool:
    """Streams one answer; whether it ended well."""
    show: Callable[[Step], None] = _write
    if show_draft:
        painter = DraftPainter(engine.tokenizer, Console(highlight=False, emoji=False))
        show = painter.paint
        Console(stderr=True, highlight=False).print(painter.legend(), soft_wrap=True)
    shown: list[str] = []

    def on_step(step: Step) -> None:
        shown.append(step.text)
        show(step)

    try:
        result = answer_one(engine, ids, asked, on_step)
    except BaseException:
        if "".join(shown):
            _end_line(shown)
        raise
    _end_line(shown)
    if not quiet:
        say(report.statistics(result))
    return _told(result)


def print_json(engine: Engine, ids: Sequence[int], asked: Asked) -> bool:
    """One answer as an object; whether it ended well."""
    result = answer_one(engine, ids, asked)
    _print_object({**report.outcome_json(result), **report.models_json(engine)})
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
    encoders = [partial(form.encode, engine, prompt) for prompt in prompts]
    batch = answer(engine, encoders, asked, parallel)
    if as_json:
        _print_object({**report.batch_json(batch), **report.models_json(engine)})
    well = True
    for number, (prompt, outcome) in enumerate(zip(prompts, batch.outcomes, strict=True), 1):
        if isinstance(outcome, Result):
            if not as_json:
                _print(f"[{number}] {prompt.title}\n{outcome.text}\n\n")
            well &= _told(outcome, f"prompt {number}: ")
        else:
            say(f"error: prompt {number}: {outcome}")
            well = False
    if not quiet:
        say(report.batch_statistics(batch))
    return well


def _told(result: Result, where: str = "") -> bool:
    """Tells the error of an answer that ended with one; whether there was none."""
    if result.error is not None:
        say(f"error: {where}{result.error}")
    return result.error is None


def _end_line(shown: Sequence[str]) -> None:
    if not "".join(shown).endswith("\n"):
        _print("\n")


def _write(step: Step) -> None:
    if step.text:
        _print(step.text)


def _print_object(found: report.Json) -> None:
    _print(json.dumps(found, ensure_ascii=False, allow_nan=False) + "\n")


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
