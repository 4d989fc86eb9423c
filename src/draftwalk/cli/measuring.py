"""What a drafter is worth and what a run has learned: measured, told and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from draftwalk.cli.meter import metering
from draftwalk.cli.options import StoreOptions
from draftwalk.cli.streams import write, write_json
from draftwalk.cli.train_target import find_model
from draftwalk.draft.load import build_drafter
from draftwalk.draft.pairing import check_fingerprint
from draftwalk.engine import Engine
from draftwalk.models import open_model
from draftwalk.train.checks import check_target
from draftwalk.train.curves import read_curves
from draftwalk.train.measure import measure
from draftwalk.train.measurement import Measurement, Worth
from draftwalk.train.pictures import check_can_draw, draw_learning, draw_worth
from draftwalk.train.run_folder import RunFolder
from draftwalk.train.shards import AnswerSet


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
    if plot is not None:
        check_can_draw(plot)
    target, opened = engine.target, open_model(find_model(drafter, where))
    check_fingerprint(opened, engine.checkpoint)
    built = build_drafter(opened, target.ops, target.tables, target.depth, target.context)
    data = AnswerSet(answers, verify=True)
    check_target(data, engine.checkpoint)
    with metering("measuring") as meter:

        def report(done: int, drafts: int) -> None:
            meter.show(done, len(data), f"{drafts} drafts")

        found = measure(built, data, data.facts, windows, sampled, report=report)
    if plot is not None:
        worth = found.loop_free or found.looping
        assert worth is not None, "something was measured"
        draw_worth(worth, found.candidates, plot)
    if as_json:
        write_json(found.as_json())
    else:
        tell(found)


def show_curves(run: Path, plot: Path | None) -> None:
    """What a run's log says."""
    read = read_curves(RunFolder(run).log)
    if plot is not None:
        check_can_draw(plot)
        draw_learning(read, plot)
    write_json(read.as_json())


def tell(found: Measurement) -> None:
    """What was measured, in lines for people."""
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
