"""What `draftwalk train` does before there is anything to learn from: prompts and answers."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from draftwalk.cli.meter import metering
from draftwalk.cli.streams import say
from draftwalk.cli.train_options import AnswerOptions
from draftwalk.draft.config import even_spread
from draftwalk.engine import Engine
from draftwalk.errors import UserError
from draftwalk.train.answers import AnswerSettings, Progress, answer, data_facts
from draftwalk.train.conversations import Conversation, read_conversations
from draftwalk.train.self_prompts import write_self_prompts
from draftwalk.train.shards import HEADER, answered_seeds, read_facts

_TAPS = 5
_HELD = 20  # one prompt of so many is held out


def prompts_for(out: Path, files: Sequence[Path]) -> list[Conversation]:
    """What can be wrong before the target is loaded: the place, and the prompts that are given.

    Returns:
        The prompts; none without files.

    Raises:
        UserError: `out` cannot be a folder, or a file has something else than prompts.
    """
    there = next(part for part in (out.absolute(), *out.absolute().parents) if part.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UserError(f"{out} cannot be a folder: {there} is none to write in", "take another")
    return read_conversations(files) if files else []


def make_answers(
    engine: Engine,
    given: list[Conversation],
    own: int,
    out: Path,
    taps: tuple[int, ...] | None,
    how: AnswerOptions,
) -> None:
    """The first stage."""
    conversations = given or own_prompts(engine, own, out, how.parallel, None)
    settings = answer_settings(engine, taps, how, out)
    answer_prompts(engine, conversations[: how.limit], out, settings, None)


def own_prompts(
    engine: Engine, count: int, out: Path, parallel: int, seconds: float | None
) -> list[Conversation]:
    """Prompts that the target writes, for at most so long; or those it has written before."""
    file = out / "prompts.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    if file.exists():
        say(f"prompts of before are used again; remove {file} for others")
    began = time.monotonic()
    with metering("prompts") as meter:

        def report(done: int) -> bool:
            meter.show(done, count)
            return seconds is None or time.monotonic() - began < seconds

        write_self_prompts(engine, count, file, parallel, report)
    return read_conversations([file])


def held_apart(
    conversations: Sequence[Conversation], learned: Path, held: Path
) -> tuple[list[Conversation], list[Conversation]]:
    """Prompts to measure on, and those to learn from.

    A prompt's own text draws which of them it is, so that further prompts change nothing for it;
    and what was answered stays where it is.

    Args:
        conversations: at least one.
        learned: folder of the answers to learn from.
        held: folder of those to measure on.

    Raises:
        UserError: answers to the same prompts are in both folders.
    """
    known, kept = answered_seeds(learned), answered_seeds(held)
    both = len(known & kept)
    if both:
        raise UserError(
            f"{learned} and {held} answer {both} of the same prompts", "take another folder"
        )
    free = [one for one in conversations if one.seed not in known]
    chosen = [one for one in free if one.seed in kept or one.one_of(_HELD)]
    if not chosen and not kept:
        chosen = free[:1]  # of few prompts none may be drawn
    seeds = {one.seed for one in chosen}
    return chosen, [one for one in conversations if one.seed not in seeds]


def answer_settings(
    engine: Engine, taps: tuple[int, ...] | None, how: AnswerOptions, out: Path
) -> AnswerSettings:
    """How prompts are answered into a folder."""
    return AnswerSettings(
        taps=_recorded(engine, taps, out),
        sampled=how.sampled,
        temperature=how.temperature,
        max_tokens=how.predict,
        most_prompt=how.most_prompt,
        parallel=how.parallel,
        whole=how.loops,
    )


def _recorded(engine: Engine, taps: tuple[int, ...] | None, out: Path) -> tuple[int, ...]:
    """The layers whose outputs are kept: taps, and the last, which says what the target thinks.

    A folder that was begun keeps those that it has.
    """
    if taps is None and (out / HEADER).exists():
        return read_facts(out).taps
    depth = engine.target.depth
    return tuple(sorted({*(taps or even_spread(depth, _TAPS)), depth - 1}))


def answer_prompts(
    engine: Engine,
    conversations: Sequence[Conversation],
    out: Path,
    settings: AnswerSettings,
    seconds: float | None,
) -> None:
    """Answers prompts into a folder, for at most so long, and says what has become of them."""
    size = data_facts(engine, settings).bytes_per_token
    say(
        f"{len(conversations)} prompts; {size / 1000:.1f} kB a token, so at most "
        f"{_bytes(len(conversations) * settings.max_tokens * size)} for answers, "
        f"prompts apart, in {out}"
    )
    began = time.monotonic()
    with metering("answers") as meter:

        def report(done: Progress) -> bool:
            elapsed = time.monotonic() - began
            text = f"{done.tokens / elapsed:.0f} tokens/s, {done.kept} kept"
            meter.show(done.prompts, done.total, text)
            return seconds is None or elapsed < seconds

        done = answer(engine, conversations, out, settings, report)
    before = len(conversations) - done.total
    say(
        f"{done.answers} answers, {done.kept} tokens and {_bytes(done.written)} kept"
        f"{f', {before} answered before' if before else ''}, {done.skipped} skipped "
        "(prompts too long, answers too short)"
    )


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
