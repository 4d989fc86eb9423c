"""`draftwalk train`: a drafter for a target, in one go or in stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from draftwalk.cli.options import DEFAULT_MODEL, StoreOptions
from draftwalk.cli.train_options import (
    AnswerOptions,
    BudgetOptions,
    LearnOptions,
    MachineOptions,
    ShapeOptions,
    TapOptions,
    numbers,
)

_MODEL = Annotated[
    str,
    typer.Option(
        "-m", "--model", metavar="MODEL", help="The target: GGUF file, folder, or known name."
    ),
]
_PROMPTS = Annotated[
    list[Path] | None,
    typer.Option(
        "--prompts",
        metavar="FILE",
        help="Prompts as JSON lines with turns or prompt. May be repeated. [default: prompts that "
        "the target writes itself]",
    ),
]
_OUT = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="DIR", help="Folder where it is kept. [required]"),
]
_ANSWERS = Annotated[
    Path | None,
    typer.Option(
        "--answers", metavar="DIR", help="What draftwalk train answers has written. [required]"
    ),
]
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def answers(
    *,
    model: _MODEL = DEFAULT_MODEL,
    prompts: _PROMPTS = None,
    self_prompts: Annotated[
        int,
        typer.Option(
            "--self-prompts",
            min=1,
            metavar="N",
            help="Without --prompts: how many it writes itself, into prompts.jsonl in --out, which "
            "is used again where it is there.",
        ),
    ] = 2000,
    out: _OUT = None,
    taps: Annotated[
        str | None,
        typer.Option(
            "--taps",
            metavar="N,N,...",
            help="Target layers whose outputs are kept, the first is 0; the last is in any case. "
            "[default: those that --out has, or five, evenly spread]",
        ),
    ] = None,
    how: AnswerOptions,
    machine: MachineOptions,
    store: StoreOptions,
) -> None:
    """Lets the target answer prompts, and keeps what a drafter listens to."""
    from draftwalk.cli import answering
    from draftwalk.cli.train_target import open_target

    if out is None:
        raise typer.BadParameter("say where answers are kept: --out DIR")
    chosen = None if taps is None else numbers(taps, "--taps")
    given = answering.prompts_for(out, prompts or [])
    opened = open_target(model, machine, store)
    answering.make_answers(opened, given, self_prompts, out, chosen, how)


def fit(
    *,
    model: _MODEL = DEFAULT_MODEL,
    learn_from: Annotated[
        list[Path] | None,
        typer.Option(
            "--answers",
            metavar="DIR",
            help="What draftwalk train answers has written. May be repeated. [required]",
        ),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option("--held-out", metavar="DIR", help="Answers to measure on, never learned."),
    ] = None,
    out: _OUT = None,
    taps: TapOptions,
    shape: ShapeOptions,
    learn: LearnOptions,
    budget: BudgetOptions,
    machine: MachineOptions,
    store: StoreOptions,
) -> None:
    """Trains a drafter on answers, or goes on training the one in --out."""
    from draftwalk.cli import fitting
    from draftwalk.cli.train_target import open_target

    if not learn_from or out is None:
        raise typer.BadParameter("fit needs --answers DIR and --out DIR")
    if (budget.minutes is None) == (budget.updates is None):
        raise typer.BadParameter("say how long: either --minutes or --updates")
    opened = open_target(model, machine, store)
    how = fitting.Learning(taps.chosen(), shape, learn, store)
    fitting.train(opened, learn_from, held_out, out, how, budget)


def measure(
    *,
    drafter: Annotated[
        str, typer.Option("-md", "--model-draft", metavar="MODEL", help="The drafter.")
    ],
    model: _MODEL = DEFAULT_MODEL,
    learn_from: _ANSWERS = None,
    windows: Annotated[
        str | None,
        typer.Option(
            "--windows", metavar="N,N,...", help="Most tokens verified in a step. [default: all]"
        ),
    ] = None,
    sampled: Annotated[
        bool, typer.Option("--sampled", help="On the sampled answers, not on the greedy ones.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw acceptance by offset (PNG).")
    ] = None,
    as_json: _JSON = False,
    machine: MachineOptions,
    store: StoreOptions,
) -> None:
    """Says what a drafter is worth on answers it has not learned, without running the target."""
    from draftwalk.cli import measuring
    from draftwalk.cli.train_target import open_target

    if learn_from is None:
        raise typer.BadParameter("measure needs --answers DIR")
    chosen = () if windows is None else numbers(windows, "--windows")
    opened = open_target(model, machine, store)
    measuring.measure_drafter(opened, drafter, store, learn_from, chosen, sampled, plot, as_json)


def curves(
    *,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The --out of draftwalk train fit.")],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw them (PNG).")
    ] = None,
) -> None:
    """Prints a run's learning curves as JSON, and draws them."""
    from draftwalk.cli import measuring

    measuring.show_curves(run, plot)


def everything(
    *,
    model: _MODEL = DEFAULT_MODEL,
    prompts: _PROMPTS = None,
    out: _OUT = None,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.05, metavar="X", help="For everything together.")
    ] = 28.0,
    taps: TapOptions,
    how: AnswerOptions,
    shape: ShapeOptions,
    learn: LearnOptions,
    machine: MachineOptions,
    store: StoreOptions,
) -> None:
    """Makes answers, trains a drafter on them and measures it: one command, one folder."""
    from draftwalk.cli import answering, fitting, training
    from draftwalk.cli.train_target import open_target

    if out is None:
        raise typer.BadParameter("say where the drafter is kept: --out DIR")
    given = answering.prompts_for(out, prompts or [])
    opened = open_target(model, machine, store)
    learning = fitting.Learning(taps.chosen(), shape, learn, store)
    training.all_stages(opened, given, out, minutes, how, learning)
