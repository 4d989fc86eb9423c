"""Arms of ours: one target in memory, each drafter on top of it, every window on each drafter."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from draftwalk.draft.load import build_drafter
from draftwalk.draft.none import EmptyDrafter
from draftwalk.draft.pairing import check_fingerprint
from draftwalk.engine import Engine, Placement, load
from draftwalk.errors import UserError
from draftwalk.models import open_model
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.step import Step
from speculation_parts.answer import (
    DFLASH,
    DFLASH2,
    PLAIN,
    STEP_PARTS,
    Answer,
    Arm,
    Question,
)

AGAIN = "plain/again"  # the same as plain: how far apart equal arms are
WITHOUT = Window(n_max=0)


def with_drafter(engine: Engine, path: Path) -> Engine:
    """The same target, sharing its weights, with another drafter.

    Raises:
        UserError: the drafter does not fit.
    """
    checkpoint, target, placement = engine.checkpoint, engine.target, engine.placement
    found = open_model(path)
    check_fingerprint(found, checkpoint)
    drafter = build_drafter(
        found,
        target.ops,
        target.tables,
        target.depth,
        target.context,
        None,
        placement.draft_kv,
    )
    return Engine(checkpoint, target, drafter, placement, path)


def open_engines(
    target: Path, drafter: Path | None, dflash: Path | None, asked: Sequence[str], place: Placement
) -> dict[str, Engine]:
    """Engines by name, plain decoding among them, since all texts are compared with its.

    Args:
        target: the model.
        drafter: a DFlash2 drafter; the packaged one by default.
        dflash: a DFlash drafter.
        asked: names of engines; those of others are passed over.
        place: where and how they compute.

    Raises:
        UserError: a model cannot be loaded, or is not there.
    """
    first = load(target, drafter, place, plain=DFLASH2 not in asked)
    engines = {PLAIN: first.plain()}
    if DFLASH in asked:
        if dflash is None:
            raise UserError("there is no DFlash drafter", "give --dflash")
        engines[DFLASH] = with_drafter(first, dflash)
    if DFLASH2 in asked:
        if isinstance(first.drafter, EmptyDrafter):
            raise UserError("no packaged drafter was trained for this target", "give --drafter")
        engines[DFLASH2] = first
    return engines


def our_arms(engines: dict[str, Engine], windows: Sequence[int]) -> list[Arm]:
    """Plain decoding twice, and each drafter at every window that its block allows and at auto."""
    arms = [
        Arm(PLAIN, PLAIN, partial(answer, engines[PLAIN], WITHOUT)),
        Arm(AGAIN, PLAIN, partial(answer, engines[PLAIN], WITHOUT)),
    ]
    for name, engine in engines.items():
        if name == PLAIN:
            continue
        widest = engine.drafter.block - 1
        for window in sorted({min(window, widest) for window in windows}):
            ask = partial(answer, engine, Window(n_max=window))
            arms.append(Arm(f"{name}/{window}", name, ask, window))
        ask = partial(answer, beside(engine), Window(auto=True))
        arms.append(Arm(f"{name}/auto", name, ask, None))
    return arms


def beside(engine: Engine) -> Engine:
    """The same models in a loop of their own, which learns from nobody else's texts."""
    return Engine(
        engine.checkpoint, engine.target, engine.drafter, engine.placement, engine.drafter_path
    )


def sampling_of(question: Question) -> Sampling:
    """How a question's tokens are chosen; the checkpoint's own settings do not count."""
    return Sampling(temperature=question.temperature, seed=question.seed)


def answer(engine: Engine, window: Window, question: Question) -> Answer:
    """Answers, with a clock around what a user would wait for: text and steps as they come."""
    steps: list[Step] = []
    limits = Limits(max_tokens=question.tokens)
    start = last = time.perf_counter()
    first: float | None = None
    for step in engine.stream(question.prompt, sampling_of(question), limits, window):
        last = time.perf_counter()
        if first is None and step.tokens:
            first = last
        steps.append(step)
    first = last if first is None else first
    return _told(steps, first - start, last - first)


def _told(steps: Sequence[Step], prompt_s: float, decode_s: float) -> Answer:
    decoding = [step for step in steps if not step.prompt_rows]
    parts = {
        "draft": sum(step.times.draft for step in decoding),
        "verify": sum(step.times.verify for step in decoding),
        "choose": sum(step.times.choose for step in decoding),
        "commit": sum(step.times.commit for step in decoding),
        "observe": sum(step.times.observe for step in decoding),
    }
    assert parts.keys() == set(STEP_PARTS)
    return Answer(
        tokens=tuple(token for step in steps for token in step.tokens),
        prompt_s=prompt_s,
        decode_s=decode_s,
        steps=len(decoding),
        verified=sum(bool(step.draft) for step in decoding),
        drafted=sum(len(step.draft) for step in decoding),
        accepted=sum(step.accepted for step in decoding),
        parts_s=parts,
        windows=dict(Counter(len(step.draft) for step in decoding)),
    )
