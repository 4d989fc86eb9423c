"""What the verbs of `draftwalk train` do with their options, and what they tell."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from draftwalk.cli.meter import metering
from draftwalk.cli.options import StoreOptions
from draftwalk.cli.progress import downloading
from draftwalk.cli.streams import say, write, write_json
from draftwalk.cli.train_options import (
    AnswerOptions,
    BudgetOptions,
    Frozen,
    LearnOptions,
    MachineOptions,
    ShapeOptions,
    numbers,
)
from draftwalk.draft.config import DrafterConfig, even_spread
from draftwalk.draft.load import build_drafter
from draftwalk.engine import Engine, Placement, find_device, load
from draftwalk.errors import UserError
from draftwalk.fetch import Store, resolve
from draftwalk.models import open_model
from draftwalk.train.answers import AnswerSettings, Progress, answer, data_facts
from draftwalk.train.conversations import Conversation, read_conversations
from draftwalk.train.curves import read_curves
from draftwalk.train.fit import FitSettings
from draftwalk.train.mask import reserved_token
from draftwalk.train.measure import measure
from draftwalk.train.measurement import Measurement, Worth
from draftwalk.train.objective import Objective
from draftwalk.train.optimisers import OptimiserSettings
from draftwalk.train.processes import own_device, started_by_torchrun
from draftwalk.train.run_folder import RunFolder
from draftwalk.train.self_prompts import write_self_prompts
from draftwalk.train.shape import Shape, new_config
from draftwalk.train.shards import HEADER, AnswerSet, read_facts
from draftwalk.train.stage import Budget, Run, Told, run_fit
from draftwalk.train.weighting import default_half
from draftwalk.weights.tensor import RawTensor

_TAPS = 5
_CONTEXT = 4096
_HELD = 20  # one prompt of so many is held out
_PROMPTS_A_SECOND = 1.5
_PARTS = {Frozen.CONVOLUTION: "_conv.", Frozen.SELECTOR: "candidate_selector."}


@dataclass(frozen=True, slots=True)
class Learning:
    """Options about the drafter and how it learns.

    Attributes:
        taps: layers it listens to, if they were named.
        shape: what else there is of its shape.
        learn: how it learns.
        device: where.
        store: where a drafter to start from is found.
    """

    taps: tuple[int, ...] | None
    shape: ShapeOptions
    learn: LearnOptions
    device: str
    store: StoreOptions


def open_target(model: str, machine: MachineOptions, where: StoreOptions) -> Engine:
    """The target, on the CPU's kernels where it can be: they are what serves it."""
    if machine.threads is not None:
        torch.set_num_threads(machine.threads)
    place = Placement(context=_CONTEXT, threads=machine.threads)
    return load(_find(model, where), placement=place, plain=True)


def _find(model: str, where: StoreOptions) -> Path:
    """A model's file or folder, fetched if it has to be."""
    with downloading() as progress:
        return resolve(model, Store(where.cache_dir, where.offline, progress))


def make_answers(
    engine: Engine,
    files: Sequence[Path],
    own: int,
    out: Path,
    taps: tuple[int, ...] | None,
    how: AnswerOptions,
) -> None:
    """The first stage."""
    conversations = _conversations(engine, files, own, out, how.parallel, None)[: how.limit]
    settings = _answer_settings(engine, taps, how, out)
    _answer(engine, conversations, out, settings, None)


def train(
    engine: Engine,
    answers: Sequence[Path],
    held_out: Path | None,
    out: Path,
    how: Learning,
    budget: BudgetOptions,
) -> None:
    """The second stage."""
    data = AnswerSet(*answers, verify=True)
    held = None if held_out is None else AnswerSet(held_out)
    limits = Budget(
        budget.updates,
        None if budget.minutes is None else 60 * budget.minutes,
        budget.decay,
        measure=60 * budget.measure_every,
    )
    found = _fit(engine, data, held, out, how, limits)
    if found is not None:
        _tell(found)
    write(f"{out / 'drafter.gguf'}\n")


def measure_drafter(
    engine: Engine,
    drafter: str,
    where: StoreOptions,
    answers: Path,
    windows: Sequence[int],
    sampled: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """The third stage."""
    target, opened = engine.target, open_model(_find(drafter, where))
    built = build_drafter(opened, target.ops, target.tables, target.depth, target.context)
    data = AnswerSet(answers)
    with metering("measuring") as meter:

        def report(done: int, drafts: int) -> None:
            meter.show(done, len(data), f"{drafts} drafts")

        found = measure(built, data, data.facts, windows, sampled, report=report)
    if plot is not None:
        from draftwalk.train.pictures import draw_worth

        worth = found.loop_free or found.looping
        assert worth is not None, "something was measured"
        draw_worth(worth, found.candidates, plot)
    if as_json:
        write_json(found.as_json())
    else:
        _tell(found)


def show_curves(run: Path, plot: Path | None) -> None:
    """What a run's log says."""
    read = read_curves(RunFolder(run).log)
    if plot is not None:
        from draftwalk.train.pictures import draw_learning

        draw_learning(read, plot)
    write_json(read.as_json())


def all_stages(
    engine: Engine,
    files: Sequence[Path],
    out: Path,
    minutes: float,
    how: AnswerOptions,
    learning: Learning,
) -> None:
    """Everything: nearly half of the time for prompts and answers, the rest to learn."""
    began = time.monotonic()
    seconds = 60 * minutes
    wanted = int(seconds * _PROMPTS_A_SECOND)  # more than can be answered
    conversations = _conversations(engine, files, wanted, out, how.parallel, 0.1 * seconds)
    conversations = conversations[: how.limit]
    held = conversations[::_HELD]
    rest = [one for number, one in enumerate(conversations) if number % _HELD]
    settings = _answer_settings(engine, learning.taps, how, out / "answers")
    whole = replace(settings, sampled=0.0, whole=True)
    _answer(engine, held, out / "held-out", whole, 0.05 * seconds)
    _answer(engine, rest, out / "answers", settings, 0.3 * seconds)
    left = 0.95 * seconds - (time.monotonic() - began)
    budget = Budget(seconds=max(1.0, left), measure=0.0)
    found = _fit(
        engine,
        AnswerSet(out / "answers"),
        AnswerSet(out / "held-out"),
        out,
        learning,
        budget,
    )
    assert found is not None, "one process measures"
    _tell(found)
    write(f"{out / 'drafter.gguf'}\n")


def _conversations(
    engine: Engine,
    files: Sequence[Path],
    own: int,
    out: Path,
    parallel: int,
    seconds: float | None,
) -> list[Conversation]:
    """The prompts of the files; without any, those that the target writes, at most so long."""
    if not files:
        file = out / "prompts.jsonl"
        out.mkdir(parents=True, exist_ok=True)
        if file.exists():
            say(f"prompts of before are used again; remove {file} for others")
        began = time.monotonic()
        with metering("prompts") as meter:

            def report(done: int) -> bool:
                meter.show(done, own)
                return seconds is None or time.monotonic() - began < seconds

            write_self_prompts(engine, own, file, parallel, report)
        files = [file]
    return read_conversations(files)


def _answer_settings(
    engine: Engine, taps: tuple[int, ...] | None, how: AnswerOptions, out: Path
) -> AnswerSettings:
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


def _listened(engine: Engine, data: AnswerSet) -> tuple[int, ...]:
    """All layers that the answers have but the last, whose outputs are there to be learned."""
    last = engine.target.depth - 1
    return tuple(tap for tap in data.facts.taps if tap != last) or data.facts.taps


def _answer(
    engine: Engine,
    conversations: Sequence[Conversation],
    out: Path,
    settings: AnswerSettings,
    seconds: float | None,
) -> Progress:
    size = data_facts(engine, settings).bytes_per_token
    say(
        f"{len(conversations)} prompts; {size / 1000:.1f} kB a token, so at most "
        f"{len(conversations) * settings.max_tokens * size / 1e9:.1f} GB for answers, "
        f"prompts apart, in {out}"
    )
    began = time.monotonic()
    with metering("answers") as meter:

        def report(done: Progress) -> bool:
            elapsed = time.monotonic() - began
            text = f"{done.tokens / elapsed:.0f} tokens/s, {done.kept} kept"
            meter.show(done.prompts, done.total, text)
            return seconds is None or elapsed < seconds

        return answer(engine, conversations, out, settings, report)


def _fit(
    engine: Engine,
    data: AnswerSet,
    held: AnswerSet | None,
    out: Path,
    how: Learning,
    budget: Budget,
) -> Measurement | None:
    place, shape, learn = own_device(find_device(how.device)), how.shape, how.learn
    folder = RunFolder(out)
    start: dict[str, RawTensor] | None = None
    config: dict[str, object]
    if learn.start is not None:
        if learn.scratch:
            raise UserError("--from and --from-scratch exclude each other", "give one of them")
        opened = open_model(_find(learn.start, how.store))
        config, start = dict(opened.config), dict(opened.tensors)
    elif folder.begun:
        config = folder.config()
    else:
        taps = how.taps or _listened(engine, data)
        config = new_config(_shape(engine, taps, shape), engine.checkpoint, engine.target.depth)
    settings = _settings(learn, DrafterConfig.read(config, "the drafter"))
    arguments = {"shape": asdict(shape), "learn": asdict(learn), "budget": asdict(budget)}
    lacking = len(data) - data.keeping(engine.target.depth - 1)
    with started_by_torchrun(place) as processes, metering("learning") as meter:
        if learn.taught and lacking and processes.first:
            say(
                f"{lacking} of {len(data)} answers lack the last layer's outputs, so only the "
                "target's tokens are learned from them"
            )

        def report(told: Told) -> None:
            text = (
                f"{told.rate:.0f} blocks/s, loss {told.loss:.2f}, "
                f"acceptance length {told.acceptance_length:.2f}"
            )
            if told.measured is not None:
                text += f" ({told.measured:.2f} on answers held out)"
            meter.show(told.done, 1.0, text)

        run = Run(
            folder=folder,
            engine=engine,
            data=data,
            held=held,
            settings=settings,
            inherit=not learn.scratch,
            listed=learn.listed,
            budget=budget,
            device=place,
            processes=processes,
            arguments=arguments,
        )
        return run_fit(run, config, start, report)


def _settings(learn: LearnOptions, drafter: DrafterConfig) -> FitSettings:
    objective = Objective(learn.weights.value, default_half(drafter.block), taught=learn.taught)
    return FitSettings(
        answers=learn.batch,
        anchors=learn.anchors,
        lengths=_lengths(learn, drafter.block, all(drafter.causal)),
        frequent=learn.head,
        drawn=learn.drawn,
        seed=learn.seed,
        objective=objective,
        optimiser=OptimiserSettings(learn.method.value, learn.rate),
        frozen=tuple(_PARTS[part] for part in learn.frozen or ()),
    )


def _shape(engine: Engine, taps: tuple[int, ...], shape: ShapeOptions) -> Shape:
    return Shape(
        taps=taps,
        layers=shape.layers,
        mlp=shape.mlp,
        block=shape.block,
        mask=reserved_token(engine) if shape.mask is None else shape.mask,
        causal=not shape.two_way,
        window=shape.window,
        dflash2=not shape.dflash,
        rank=shape.rank,
        candidates=shape.candidates,
    )


def _lengths(learn: LearnOptions, block: int, causal: bool) -> tuple[int, ...]:
    if learn.lengths is not None:
        return numbers(learn.lengths, "--lengths")
    if not causal or block < 4:
        return ()
    return (block // 2, block // 2, 3 * block // 4, block)


def _tell(found: Measurement) -> None:
    for name, worth in (("without loops", found.loop_free), ("looping", found.looping)):
        if worth is not None:
            _tell_worth(name, worth)


def _tell_worth(name: str, worth: Worth) -> None:
    write(f"{worth.answers} answers {name}, {worth.tokens} tokens\n")
    windows = list(worth.windows)
    for window, acceptance in worth.windows.items():
        write(
            f"  window {window}: acceptance length {acceptance.length:.3f} pooled, "
            f"{acceptance.length_per_answer:.3f} per request\n"
        )
    for suite, by_window in worth.suites.items():
        write(f"  {suite}: {by_window[windows[-1]].length:.3f}\n")
    write(
        f"  each row's best token alone {worth.unary_length:.3f}, "
        f"the best path through the candidates {worth.oracle_length:.3f}\n"
    )
