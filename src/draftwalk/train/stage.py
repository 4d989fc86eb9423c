"""A run of the second stage: it begins or goes on, saves itself, measures itself, and ends.

The learning rate stays up until the last share of the budget and then falls; what comes out is the
drafter. A run that has ended is extended from where its rate began to fall.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import isfinite
from typing import cast

import torch

from draftwalk.draft.config import OWN_TABLE, VOCABULARY_KEY, DrafterConfig
from draftwalk.draft.export import calibrated
from draftwalk.draft.load import build_drafter
from draftwalk.engine import Engine
from draftwalk.errors import UserError
from draftwalk.train.checks import check_held_out, check_target
from draftwalk.train.curves import measured_line
from draftwalk.train.export import export
from draftwalk.train.fit import Counts, Fit, FitSettings, frequent_tokens
from draftwalk.train.measure import measure
from draftwalk.train.measurement import Measurement
from draftwalk.train.model import FACTORS, LearningDrafter, TargetTables
from draftwalk.train.processes import Processes
from draftwalk.train.provenance import provenance
from draftwalk.train.run_folder import CHECKPOINT, STABLE, RunFolder
from draftwalk.train.schedule import Schedule
from draftwalk.train.shape import new_tensors
from draftwalk.train.shards import AnswerSet
from draftwalk.train.snapshot import Snapshot, snapshot
from draftwalk.train.stopping import Stopped, stopping
from draftwalk.weights.tensor import RawTensor
from draftwalk.window import Calibration
from draftwalk.window.fit import fit_prior


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a run goes on from here, and its rhythm.

    Attributes:
        updates: how many, or
        seconds: of training; one of the two.
        decay: share of all updates so far in which the learning rate falls; 0: it stays up, and
            the drafter is not finished.
        save: seconds between checkpoints.
        measure: seconds between measurements on answers held out; 0: only at the end.
        tell: updates between lines of the log.
    """

    updates: int | None = None
    seconds: float | None = None
    decay: float = 0.2
    save: float = 600.0
    measure: float = 1800.0
    tell: int = 10


@dataclass(frozen=True, slots=True)
class Told:
    """What a run tells on its way.

    Attributes:
        step: updates so far.
        anchors: blocks so far.
        rate: blocks a second.
        loss: mean over the last updates.
        acceptance_length: the same, estimated.
        done: share of the budget that is used.
        measured: on answers held out, once that was done.
    """

    step: int
    anchors: int
    rate: float
    loss: float
    acceptance_length: float
    done: float
    measured: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """What a run works with.

    Attributes:
        folder: where it is kept.
        engine: the target.
        data: answers to learn from.
        held: answers to measure on.
        settings: how it learns.
        inherit: whether a new drafter starts from the target's last layers.
        listed: how many tokens the drafter may propose once it is exported, the target's most
            frequent; 0 is all. Fewer make a draft cheaper.
        budget: how long.
        device: where.
        processes: that share the work.
        arguments: for the record.
    """

    folder: RunFolder
    engine: Engine
    data: AnswerSet
    held: AnswerSet | None
    settings: FitSettings
    inherit: bool
    listed: int
    budget: Budget
    device: torch.device
    processes: Processes
    arguments: Mapping[str, object]


def run_fit(
    run: Run,
    config: Mapping[str, object],
    start: Mapping[str, RawTensor] | None,
    report: Callable[[Told], None],
) -> Measurement | None:
    """Trains a drafter, or goes on training it.

    Args:
        run: with what.
        config: of a drafter as `new_config` makes it; the folder's own is kept where it has one.
        start: tensors to start from; drawn ones by default.
        report: told after every update.

    Returns:
        What the drafter is worth at the end, if there are answers held out.

    Raises:
        UserError: the folder holds another run or is trained in, answers, shape and target do not
            fit, or the run diverged.
        Stopped: a signal asked to; what was learned is saved.
    """
    config = {key: value for key, value in config.items() if key != OWN_TABLE}
    check_target(run.data, run.engine.checkpoint)
    if run.held is not None:
        taps = DrafterConfig.read(config, "the drafter").taps
        check_held_out(run.held, run.data, run.engine.checkpoint, taps)
    with run.folder.alone() if run.processes.first else nullcontext():
        return _Running(run, config, start, report).finish()


class _Running:
    """A run while it runs."""

    def __init__(
        self,
        run: Run,
        config: Mapping[str, object],
        start: Mapping[str, RawTensor] | None,
        report: Callable[[Told], None],
    ) -> None:
        self._run = run
        self._config = config
        self._report = report
        self._fit = _fit(run, config, start)
        self._seconds = 0.0  # of all runs in this folder
        standing = run.folder.standing()
        if standing is not None:
            self._fit.resume(standing)
            self._seconds = cast(float, standing.progress["seconds"])
            falling = cast("int | None", standing.progress["decay_from"])
            steps = cast(int, standing.progress["decay"])
            self._fit.schedule = Schedule(decay_from=falling, decay=steps)
        self._first = self._fit.step
        self._anchors = self._fit.anchors
        self._used = 0.0  # share of the budget, the same in every process
        self._began = self._saved = self._measured = time.monotonic()
        self._recent: deque[Counts] = deque(maxlen=run.budget.tell)
        self._worth: float | None = None

    def finish(self) -> Measurement | None:
        """Runs until the budget is used."""
        run = self._run
        if run.processes.first:
            run.folder.begin(self._config)
            run.folder.note(provenance(run.arguments, run.data, run.engine.checkpoint.path))
            run.folder.tell_beginning(self._first)
        with stopping() as asked:
            while not self._spent():
                self._update()
                if self._agreed(asked()):
                    self._save(CHECKPOINT)
                    raise Stopped(f"stopped after update {self._fit.step}, which is saved")
        self._save(CHECKPOINT, ended=self._fit.schedule.decay_from is not None)
        if not run.processes.first:
            return None
        self._export(None)  # measuring takes a while, in which anything may happen
        found = self._measure()
        if found is not None:
            self._export(fit_prior(found.outcomes, found.block - 1))
        return found

    def _update(self) -> None:
        """One update, and what is due after it."""
        budget, counts = self._run.budget, self._fit.update()
        if not (isfinite(counts.loss) and isfinite(self._fit.gradient)):
            raise _diverged(self._fit.step)
        self._recent.append(counts)
        self._used = self._done()
        self._tell()
        now = time.monotonic()
        if now - self._saved > budget.save:
            self._save(CHECKPOINT)
        if budget.measure and now - self._measured > budget.measure:
            self._save(CHECKPOINT)
            self._measure()
        self._begin_decay()  # also where the time is over at once, as after a machine slept

    def _agreed(self, asked: bool) -> bool:
        """Whether any process was asked to stop: all of them do so after the same update."""
        count = torch.tensor([float(asked)])
        self._run.processes.add([count])
        return bool(count > 0)

    def _export(self, calibration: Calibration | None) -> None:
        config = calibrated({**self._config, **self._listed()}, calibration)
        export(self._snapshot(config), self._run.engine.checkpoint, self._run.folder.path)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _done(self) -> float:
        """Share of the budget that is used; every process goes by the first one's clock."""
        budget = self._run.budget
        if budget.updates is not None:
            return (self._fit.step - self._first) / max(1, budget.updates)
        assert budget.seconds is not None, "a budget is updates or seconds"
        share = torch.tensor([self._elapsed / budget.seconds], dtype=torch.float64)
        if not self._run.processes.first:
            share.zero_()
        self._run.processes.add([share])
        return float(share)

    def _spent(self) -> bool:
        schedule, step = self._fit.schedule, self._fit.step
        if schedule.decay_from is not None:
            return step >= schedule.decay_from + schedule.decay
        return self._used >= 1.0

    def _begin_decay(self) -> None:
        """Lets the learning rate fall once what is left of the budget is just enough for it."""
        share = self._run.budget.decay
        if not share or self._fit.schedule.decay_from is not None:
            return
        step = self._fit.step
        here, steps = step - self._first, max(1, round(step * share / (1 - share)))
        if here and steps * self._used >= here * (1 - self._used):
            self._save(STABLE)
            self._fit.schedule = replace(self._fit.schedule, decay_from=step, decay=steps)

    def _tell(self) -> None:
        if not self._run.processes.first:
            return
        fit, recent = self._fit, self._recent
        lengths = sum(one.acceptance_length for one in recent) / len(recent)
        loss = sum(one.loss for one in recent) / len(recent)
        elapsed = self._elapsed
        if fit.step % self._run.budget.tell == 0:
            self._run.folder.tell(
                {
                    "step": fit.step,
                    "anchors": fit.anchors,
                    "seconds": round(self._seconds + elapsed, 1),
                    "loss": round(loss, 4),
                    "acceptance_length": round(lengths, 4),
                    "factor": round(fit.schedule.factor(fit.step), 4),
                    "gradient": round(fit.gradient, 4),
                    **_rates(recent),
                }
            )
        rate = (fit.anchors - self._anchors) / elapsed
        done = min(1.0, self._used)
        self._report(Told(fit.step, fit.anchors, rate, loss, lengths, done, self._worth))

    def _save(self, name: str, ended: bool = False) -> None:
        self._saved = time.monotonic()
        if self._run.processes.first:
            standing = self._fit.standing()
            if not all(bool(value.isfinite().all()) for value in standing.parameters.values()):
                raise _diverged(self._fit.step)
            progress = {
                **standing.progress,
                "seconds": self._seconds + self._elapsed,
                "decay_from": self._fit.schedule.decay_from,
                "decay": self._fit.schedule.decay,
                "ended": ended,
            }
            self._run.folder.save(replace(standing, progress=progress), name)

    def _listed(self) -> Mapping[str, object]:
        """This package's table of a config.json: the tokens that may be proposed."""
        count, vocabulary = self._run.listed, len(self._fit.drafter.head)
        if not 0 < count < vocabulary:
            return {}
        ids = frequent_tokens(self._run.data, count, vocabulary).tolist()
        return {OWN_TABLE: {VOCABULARY_KEY: ids}}

    def _snapshot(self, config: Mapping[str, object]) -> Snapshot:
        # Named after the run, and no folder: a drafter is never written into what it is made from.
        path = self._run.folder.path.resolve()
        return snapshot(config, self._fit.drafter.parameters, path / path.name)

    def _measure(self) -> Measurement | None:
        """Walks through the answers held out, as the engine would."""
        self._measured = time.monotonic()
        run = self._run
        if run.held is None or not run.processes.first:
            return None
        target = run.engine.target
        drafter = build_drafter(
            self._snapshot(self._config), target.ops, target.tables, target.depth, target.context
        )
        found = measure(drafter, run.held, run.held.facts, (drafter.block - 1,))
        full = found.block - 1
        self._worth = None if found.loop_free is None else found.loop_free.windows[full].length
        seconds = round(self._seconds + self._elapsed, 1)
        run.folder.tell(measured_line(self._fit.step, self._fit.anchors, seconds, found))
        return found


def _diverged(step: int) -> UserError:
    return UserError(
        f"the run diverged: update {step} has numbers that are not finite",
        "take a lower --lr; what was saved before stays as it is",
    )


def _rates(recent: Collection[Counts]) -> dict[str, object]:
    """By offset: cross entropy, and shares right by head, covered, and right by selector."""

    def share(name: str, of: str = "learned") -> list[float]:
        parts = [getattr(one, name) for one in recent]
        whole = [getattr(one, of) for one in recent]
        return [
            round(sum(part) / max(1.0, sum(all_)), 4)
            for part, all_ in zip(zip(*parts, strict=True), zip(*whole, strict=True), strict=True)
        ]

    return {
        "cross_entropy": share("head"),
        "recall_1": share("right"),
        "recall_k": share("covered"),
        "selected": share("selected"),
        "accepted": share("accepted", "at_risk"),
    }


def _fit(run: Run, config: Mapping[str, object], start: Mapping[str, RawTensor] | None) -> Fit:
    read = DrafterConfig.read(config, "the drafter")
    target = run.engine.checkpoint
    if start is None:
        generator = torch.Generator().manual_seed(run.settings.seed)
        blueprint = run.engine.target.blueprint
        start = new_tensors(read, target, blueprint, generator, run.inherit)
    if read.selector is not None and not set(FACTORS) <= start.keys():
        raise UserError(
            "the selector of the drafter to start from is no longer in factors",
            "start from the drafter.gguf that was made with it",
        )
    longest = max(run.data.size(number) for number in range(len(run.data)))
    tables = TargetTables.of(target, run.engine.target, run.device)
    drafter = LearningDrafter(read, dict(start), tables, longest, run.device)
    return Fit(drafter, run.data, run.settings, Schedule(), run.processes)
