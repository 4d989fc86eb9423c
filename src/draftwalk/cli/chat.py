"""`draftwalk chat`: a conversation; the next turn keeps what both models know of the last one."""

from __future__ import annotations

from typing import Annotated

import typer

from draftwalk.cli.options import (
    ChatOptions,
    LimitOptions,
    ModelOptions,
    PlaceOptions,
    SamplingOptions,
    StoreOptions,
    WindowOptions,
)

_VERBOSE = Annotated[
    bool, typer.Option("--verbose", help="After each answer, what it took and what was reused.")
]


def chat(
    *,
    verbose: _VERBOSE = False,
    models: ModelOptions,
    sampling: SamplingOptions,
    limits: LimitOptions,
    window: WindowOptions,
    words: ChatOptions,
    place: PlaceOptions,
    store: StoreOptions,
) -> None:
    """Talks with a model: a line is a turn, /reset starts anew, /exit or Ctrl-D ends."""
    from draftwalk.cli import answer, conversation, loading

    given = sampling.asked(), limits.limits(), window.window()
    form = answer.Format(False, words.system, words.template_kwargs())
    engine = loading.open_engine(models, place, store)
    asked = answer.Asked(engine.sampling(given[0]), *given[1:])
    conversation.talk(conversation.Conversation(engine, form, asked), verbose)
