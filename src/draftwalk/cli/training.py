"""What `draftwalk train all` does: every stage, within the time there is."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from draftwalk.cli.answering import (
    answer_prompts,
    answer_settings,
    held_apart,
    own_prompts,
)
from draftwalk.cli.fitting import Learning, fit
from draftwalk.cli.train_options import AnswerOptions
from draftwalk.engine import Engine
from draftwalk.train.conversations import Conversation
from draftwalk.train.shards import AnswerSet
from draftwalk.train.stage import Budget

_PROMPTS_A_SECOND = 1.5


def all_stages(
    engine: Engine,
    given: list[Conversation],
    out: Path,
    minutes: float,
    how: AnswerOptions,
    learning: Learning,
) -> None:
    """Everything: nearly half of the time for prompts and answers, the rest to learn."""
    began = time.monotonic()
    seconds = 60 * minutes
    wanted = int(seconds * _PROMPTS_A_SECOND)  # more than can be answered
    conversations = given or own_prompts(engine, wanted, out, how.parallel, 0.1 * seconds)
    learned, held_out = out / "answers", out / "held-out"
    held, rest = held_apart(conversations[: how.limit], learned, held_out)
    settings = answer_settings(engine, learning.taps, how, learned)
    whole = replace(settings, sampled=0.0, whole=True)
    answer_prompts(engine, held, held_out, whole, 0.05 * seconds)
    answer_prompts(engine, rest, learned, settings, 0.3 * seconds)
    left = 0.95 * seconds - (time.monotonic() - began)
    budget = Budget(seconds=max(1.0, left), measure=0.0)
    fit(
        engine,
        AnswerSet(learned, verify=True),
        AnswerSet(held_out, verify=True),
        out,
        learning,
        budget,
    )
