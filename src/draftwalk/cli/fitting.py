"""What `draftwalk train fit` does with its options: it begins a run, or goes on with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from draftwalk.cli.measuring import tell
from draftwalk.cli.meter import metering
from draftwalk.cli.options import StoreOptions
from draftwalk.cli.streams import say, write
from draftwalk.cli.train_options import (
    BudgetOptions,
    Frozen,
    LearnOptions,
    ShapeOptions,
    numbers,
)
from draftwalk.cli.train_target import find_model
from draftwalk.draft.config import DrafterConfig
from draftwalk.engine import Engine, find_device
from draftwalk.errors import UserError
from draftwalk.models import open_model
from draftwalk.train.export import SMALL
from draftwalk.train.fit import FitSettings
from draftwalk.train.mask import reserved_token
from draftwalk.train.objective import Objective
from draftwalk.train.optimisers import OptimiserSettings
from draftwalk.train.processes import own_device, started_by_torchrun
from draftwalk.train.run_folder import RunFolder
from draftwalk.train.shape import Shape, new_config
from draftwalk.train.shards import AnswerSet
from draftwalk.train.stage import Budget, Run, Told, run_fit
from draftwalk.train.stopping import Stopped
from draftwalk.train.weighting import default_half
from draftwalk.weights.tensor import RawTensor

_PARTS = {Frozen.CONVOLUTION: "_conv.", Frozen.SELECTOR: "candidate_selector."}


@dataclass(frozen=True, slots=True)
class Learning:
    """Options about the drafter and how it learns.

    Attributes:
        taps: layers it listens to, if they were named.
        shape: what else there is of its shape.
        learn: how it learns.
        store: where a drafter to start from is found.
    """

    taps: tuple[int, ...] | None
    shape: ShapeOptions
    learn: LearnOptions
    store: StoreOptions


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
    held = None if held_out is None else AnswerSet(held_out, verify=True)
    limits = Budget(
        budget.updates,
        None if budget.minutes is None else 60 * budget.minutes,
        budget.decay,
        measure=60 * budget.measure_every,
    )
    fit(engine, data, held, out, how, limits)


def fit(
    engine: Engine,
    data: AnswerSet,
    held: AnswerSet | None,
    out: Path,
    how: Learning,
    budget: Budget,
) -> None:
    """Trains a drafter, and tells what it is worth and where it is."""
    learn = how.learn
    place, folder = own_device(find_device(learn.device)), RunFolder(out)
    config, start = _beginning(engine, data, folder, how)
    drafter = DrafterConfig.read(config, "the drafter")
    with started_by_torchrun(place) as processes, metering("learning") as meter:
        if processes.first:
            _say_what_lacks(engine, data, learn)
        run = Run(
            folder=folder,
            engine=engine,
            data=data,
            held=held,
            settings=_settings(learn, drafter),
            inherit=not learn.scratch,
            listed=learn.listed,
            budget=budget,
            device=place,
            processes=processes,
            arguments={
                "shape": asdict(Shape.of(drafter)),
                "learn": asdict(learn),
                "budget": asdict(budget),
            },
        )

        def report(told: Told) -> None:
            meter.show(told.done, 1.0, _in_words(told))

        try:
            found = run_fit(run, config, start, report)
        except Stopped as stopped:
            if processes.first:
                say(f"{stopped}; the same command goes on")
            raise
    if found is not None:
        tell(found)
    if processes.first:
        write(f"{out / SMALL}\n")


def _in_words(told: Told) -> str:
    text = (
        f"{told.rate:.0f} blocks/s, loss {told.loss:.2f}, "
        f"acceptance length {told.acceptance_length:.2f}"
    )
    return text if told.measured is None else f"{text} ({told.measured:.2f} on answers held out)"


def _say_what_lacks(engine: Engine, data: AnswerSet, learn: LearnOptions) -> None:
    lacking = len(data) - data.keeping(engine.target.depth - 1)
    if learn.taught and lacking:
        say(
            f"{lacking} of {len(data)} answers lack the last layer's outputs, so only the "
            "target's tokens are learned from them"
        )


def _beginning(
    engine: Engine, data: AnswerSet, folder: RunFolder, how: Learning
) -> tuple[dict[str, object], dict[str, RawTensor] | None]:
    """The drafter's config.json, and values to start from if they are not drawn.

    A folder that holds a run, and a drafter to start from, have a shape; others are refused.
    """
    learn, opened = how.learn, None
    if learn.start is not None:
        if learn.scratch:
            raise UserError("--from and --from-scratch exclude each other", "give one of them")
        if folder.saved:
            say(f"the run in {folder.path} goes on; --from is for its beginning")
        else:
            opened = open_model(find_model(learn.start, how.store))
    start = None if opened is None else dict(opened.tensors)
    if folder.begun:
        config, where = folder.config(), f"the run in {folder.path}"
    elif opened is not None:
        config, where = dict(opened.config), f"the drafter {learn.start}"
    else:
        usual = Shape(how.taps or _listened(engine, data), mask=_mask(engine, how.shape))
        shape = _asked(how, usual)
        return new_config(shape, engine.checkpoint, engine.target.depth), None
    there = Shape.of(DrafterConfig.read(config, where))
    _check_same(there, _asked(how, there), where)
    return config, start


def _check_same(there: Shape, asked: Shape, where: str) -> None:
    for name in (field.name for field in fields(Shape)):
        old, new = getattr(there, name), getattr(asked, name)
        if old != new:
            raise UserError(
                f"{where} has {name} {_plain(old)}, asked for is {_plain(new)}",
                "leave that option out, or start another run in another folder",
            )


def _plain(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _asked(how: Learning, usual: Shape) -> Shape:
    """The shape that was asked for; what no option names is as usual."""
    shape = how.shape

    def chosen(option: int | None, other: int) -> int:
        return other if option is None else option

    return Shape(
        taps=how.taps or usual.taps,
        layers=chosen(shape.layers, usual.layers),
        mlp=usual.mlp if shape.mlp is None else shape.mlp,
        block=chosen(shape.block, usual.block),
        mask=chosen(shape.mask, usual.mask),
        causal=usual.causal and not shape.two_way,
        window=usual.window if shape.window is None else shape.window,
        dflash2=usual.dflash2 and not shape.dflash,
        kernel=usual.kernel,
        group=usual.group,
        rank=chosen(shape.rank, usual.rank),
        candidates=chosen(shape.candidates, usual.candidates),
    )


def _mask(engine: Engine, shape: ShapeOptions) -> int:
    return reserved_token(engine) if shape.mask is None else shape.mask


def _listened(engine: Engine, data: AnswerSet) -> tuple[int, ...]:
    """All layers that the answers have but the last, whose outputs are there to be learned."""
    last = engine.target.depth - 1
    return tuple(tap for tap in data.facts.taps if tap != last) or data.facts.taps


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
        precision=learn.precision.value,
    )


def _lengths(learn: LearnOptions, block: int, causal: bool) -> tuple[int, ...]:
    if learn.lengths is not None:
        return numbers(learn.lengths, "--lengths")
    if not causal or block < 4:
        return ()
    return (block // 2, block // 2, 3 * block // 4, block)
