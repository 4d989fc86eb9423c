"""What parts of a drafter are worth: drafters trained alike, on the same answers held out.

    python benchmarks/modules.py TARGET.gguf HELD_OUT dflash2=RUN/drafter.gguf dflash=… […]
        [--window 7] [--times 40] [--threads 2]

HELD_OUT is a folder of `draftwalk train answers --sampled 0 --keep-loops`. Every drafter walks
through its greedy answers without loops; the acceptance length is over all steps, and beside it
stands the difference from the first drafter, with the interval of 95% when answers are drawn again.
A cycle is a draft and the target's pass over it, at this window and at three tokens, over a plain
pass: medians of interleaved passes. A table goes to stderr, one JSON document is the last line of
stdout.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from draftwalk.draft.load import build_drafter, read_config
from draftwalk.engine import Engine, Placement, load
from draftwalk.models import open_model
from draftwalk.train.shards import AnswerFacts, AnswerSet
from draftwalk.train.walk import walk
from passes import draft_passes, interleaved, target_passes
from speculation_parts.statistics import divided, draw_again, of_sums

SHORT = 3  # tokens of the other window that cycles are timed at
CONTEXT = 300
Sums = NDArray[np.float64]  # [answers, 2]: tokens that stood, steps


def main() -> None:
    """Runs and reports."""
    asked = parse()
    torch.set_num_threads(asked.threads)
    drafters = dict(one.split("=", 1) for one in asked.drafters)
    engine = load(asked.target, placement=Placement(threads=asked.threads), plain=True)
    held = AnswerSet(asked.held)
    walked = {
        name: sums_of(engine, Path(path), held, asked.window) for name, path in drafters.items()
    }
    cycles = cycles_of(engine, drafters, asked.window, asked.times)
    first = next(iter(walked.values()))
    suites = [one.source for one in loop_free(held)]
    draws = draw_again(suites)
    found = {}
    for name, sums in walked.items():
        columns = (*sums.T, *first.T)
        length = of_sums(lambda stood, steps, *_: 1 + divided(stood, steps), columns, draws)
        more = of_sums(lambda a, b, c, d: divided(a, b) - divided(c, d), columns, draws)
        found[name] = {
            "acceptance_length": length.json(),
            "difference": more.json(),
            "cycle": cycles[name],
        }
    Console(stderr=True).print(table_of(found))
    print(json.dumps({"answers": len(suites), "window": asked.window, "drafters": found}))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", type=Path)
    parser.add_argument("held", type=Path)
    parser.add_argument("drafters", nargs="+", metavar="NAME=DRAFTER")
    parser.add_argument("--window", type=int, default=7)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def loop_free(held: AnswerSet) -> list[AnswerFacts]:
    """The answers that are walked through."""
    every = [held.about(number) for number in range(len(held))]
    return [one for one in every if one.greedy and one.loop is None]


def sums_of(engine: Engine, path: Path, held: AnswerSet, window: int) -> Sums:
    """Of every answer, tokens that stood and steps."""
    target = engine.target
    drafter = build_drafter(
        open_model(path), target.ops, target.tables, target.depth, target.context
    )
    chosen = (one for one in held if one.facts.greedy and one.facts.loop is None)
    walked = walk(drafter, chosen, held.facts, (window,))
    visits = walked.at(window)
    size = len(walked.facts)
    stood = np.bincount(visits.answers, np.minimum(visits.accepted, window), size)
    return np.stack([stood, np.bincount(visits.answers, minlength=size)], axis=1)


def cycles_of(
    engine: Engine, drafters: Mapping[str, str], window: int, times: int
) -> dict[str, dict[int, float]]:
    """Draft and verification of each drafter over a plain pass, by window."""
    windows = sorted({min(SHORT, window), window})
    vocabulary = engine.target.vocabulary
    passes = target_passes(engine, CONTEXT, window + 1)
    for name, path in drafters.items():
        drafts = draft_passes(engine, Path(path), vocabulary, CONTEXT)
        whole = max(rows for _, _, rows in drafts)
        shortens = all(read_config(open_model(Path(path))).causal)
        for size in windows:
            rows = size + 1 if shortens else whole
            passes[name, 0, size + 1] = drafts["draft", vocabulary, rows]
    seconds = {key: median(all_) for key, all_ in interleaved(passes, times).items()}
    plain = seconds["target", vocabulary, 1]
    return {
        name: {
            n: round((seconds[name, 0, n + 1] + seconds["target", vocabulary, n + 1]) / plain, 3)
            for n in windows
        }
        for name in drafters
    }


def table_of(found: Mapping[str, Mapping[str, object]]) -> Table:
    """One line for each drafter."""
    table = Table(title="the same answers, steps and data")
    for column in ("drafter", "acceptance length", "difference", "cycle over a plain pass"):
        table.add_column(column)
    for name, one in found.items():
        table.add_row(name, *(json.dumps(one[key]) for key in list(one)))
    return table


if __name__ == "__main__":
    main()
