"""`draftwalk run`: answers a prompt, or a file of prompts as one batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from draftwalk.cli.options import (
    NO_DRAFTER,
    ChatOptions,
    LimitOptions,
    ModelOptions,
    PlaceOptions,
    SamplingOptions,
    StoreOptions,
    WindowOptions,
)

_PROMPT = Annotated[
    str | None,
    typer.Argument(metavar="PROMPT", help="The prompt; without one, or for -, what is piped in."),
]


@dataclass(frozen=True)
class RunOptions:
    """Options of this verb only."""

    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="Answer many prompts: one a line, or JSON lines with prompt, turns or messages. "
            "- is stdin.",
        ),
    ] = None
    parallel: Annotated[
        int,
        typer.Option(
            "-np", "--parallel", min=1, metavar="N", help="Prompts of --prompts in one pass."
        ),
    ] = 16
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the text as it stands, without chat template.")
    ] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object in place of the text.")
    ] = False
    show_draft: Annotated[
        bool, typer.Option("--show-draft", help="Show accepted, dropped and own tokens apart.")
    ] = False
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Answer without the drafter too, and compare the two."),
    ] = False
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No statistics on stderr.")] = False

    def check(self, prompt: str | None, models: ModelOptions, window: WindowOptions) -> None:
        """Refuses options that contradict each other."""
        if self.prompts is not None and prompt is not None:
            raise typer.BadParameter("give either a prompt or --prompts, not both")
        shown = {"--json": self.as_json, "--show-draft": self.show_draft, "--compare": self.compare}
        chosen = [name for name, wanted in shown.items() if wanted]
        if len(chosen) > 1:
            raise typer.BadParameter(f"{' and '.join(chosen)} cannot be combined")
        if self.prompts is not None and chosen and not self.as_json:
            raise typer.BadParameter(f"{chosen[0]} shows one answer, --prompts asks for many")
        drafts = models.model_draft != NO_DRAFTER and window.window().n_max != 0
        if self.compare and not drafts:
            raise typer.BadParameter("--compare: without drafts there is nothing to compare")


def run(
    *,
    prompt: _PROMPT = None,
    own: RunOptions,
    models: ModelOptions,
    sampling: SamplingOptions,
    limits: LimitOptions,
    window: WindowOptions,
    chat: ChatOptions,
    place: PlaceOptions,
    store: StoreOptions,
) -> None:
    """Answers a prompt, or a file of prompts."""
    own.check(prompt, models, window)
    from draftwalk.cli import answer, compare, loading, output, prompts

    given = sampling.asked(), limits.limits(), window.window()
    form = answer.Format(own.raw, chat.system, chat.template_kwargs())
    many = None if own.prompts is None else prompts.read_prompts(own.prompts)
    one = prompts.read_prompt(prompt) if many is None else None
    engine = loading.open_engine(models, place, store)
    asked = answer.Asked(engine.sampling(given[0]), *given[1:])
    if one is None:
        assert many is not None
        ok = output.print_batch(engine, many, form, asked, own.parallel, own.as_json, own.quiet)
    elif own.compare:
        ok = compare.compare(engine, form.encode(engine, one), asked)
    elif own.as_json:
        ok = output.print_json(engine, form.encode(engine, one), asked)
    else:
        ids = form.encode(engine, one)
        ok = output.print_text(engine, ids, asked, own.show_draft, own.quiet)
    if not ok:
        raise typer.Exit(1)
