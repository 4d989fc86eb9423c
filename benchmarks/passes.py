"""What checking and drafting cost by rows: passes of target and drafter over a plain pass.

    python benchmarks/passes.py TARGET.gguf DRAFTER [--vocabularies 49152 8192 …] [--context 300]
        [--times 60] [--threads 2]

Every size takes its turn in every round, so that the machine's moods meet all of them; medians are
divided by that of the target's pass of one row. A draft of fewer rows is what a causal drafter
makes for a smaller window. The features are random: costs do not depend on them. A table
goes to stderr, one JSON document is the last line of stdout.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from draftwalk.draft import DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.load import build_drafter
from draftwalk.engine import Engine, Placement, load
from draftwalk.models import open_model
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.state import pass_over
from draftwalk.verify.noise import Noise

CPU = torch.device("cpu")
Pass = Callable[[], None]


def main() -> None:
    """Runs and reports."""
    asked = parse()
    torch.set_num_threads(asked.threads)
    engine = load(asked.target, placement=Placement(threads=asked.threads), plain=True)
    vocabulary = engine.target.vocabulary
    sizes = asked.vocabularies or [vocabulary, vocabulary // 3, vocabulary // 6, vocabulary // 12]
    passes = target_passes(engine, asked.context)
    for size in sizes:
        passes |= draft_passes(engine, asked.drafter, min(size, vocabulary), asked.context)
    seconds = interleaved(passes, asked.times)
    plain = median(seconds["target", vocabulary, 1])
    rows = sorted({rows for _, _, rows in passes})
    found = {
        f"{what} {size}": {
            n: round(median(seconds[what, size, n]) / plain, 3)
            for n in rows
            if (what, size, n) in seconds
        }
        for what, size in dict.fromkeys((what, size) for what, size, _ in passes)
    }
    Console(stderr=True).print(table_of(found, rows))
    print(json.dumps({"threads": asked.threads, "context": asked.context, "passes": found}))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", type=Path)
    parser.add_argument("drafter", type=Path)
    parser.add_argument("--vocabularies", type=int, nargs="+")
    parser.add_argument("--context", type=int, default=300)
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def target_passes(engine: Engine, context: int, most: int = 8) -> dict[tuple[str, int, int], Pass]:
    """Passes of 1 to `most` rows with logits behind a context."""
    target = engine.target
    state = target.new_state()
    state.open(0)
    read = Rows.lay_out([Rowset(0, [5] * context, 0, "none")], CPU)
    with pass_over(state, read) as kept:
        target.forward(read, state, ())
        kept[0] = context

    def of(count: int) -> Pass:
        rows = Rows.lay_out([Rowset(0, [5] * count, context)], CPU)

        def run() -> None:
            with pass_over(state, rows):
                target.forward(rows, state, ())

        return run

    return {("target", target.vocabulary, n): of(n) for n in range(1, most + 1)}


def draft_passes(
    engine: Engine, path: Path, vocabulary: int, context: int
) -> dict[tuple[str, int, int], Pass]:
    """Whole drafts, the walk included, of 2 rows to all, among the first `vocabulary` tokens."""
    target = engine.target
    listed = None if vocabulary == target.vocabulary else range(vocabulary)
    drafter: BlockDrafter = build_drafter(
        open_model(path), target.ops, target.tables, target.depth, target.context, listed
    )
    drafter.state.open(0)
    rows = Rows.lay_out([Rowset(0, [0] * context, 0, "none")], CPU)
    drafter.observe(rows, torch.randn(context, len(drafter.taps) * target.width), {0: context})

    def of(count: int) -> Pass:
        request = DraftRequest(0, [5] * (context + 1), count - 1, Sampling(), Noise(0))

        def run() -> None:
            drafter.propose([request], count)

        return run

    return {("draft", vocabulary, n): of(n) for n in range(2, drafter.block + 1)}


def interleaved(
    passes: dict[tuple[str, int, int], Pass], times: int
) -> dict[tuple[str, int, int], list[float]]:
    """Seconds of every pass, in rounds; the first round is not counted."""
    seconds: dict[tuple[str, int, int], list[float]] = {name: [] for name in passes}
    for turn in range(times + 1):
        for name, run in passes.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def table_of(found: dict[str, dict[int, float]], rows: list[int]) -> Table:
    """One line for each vocabulary."""
    table = Table(title="a plain pass is 1")
    for column in ("pass, tokens", *map(str, rows)):
        table.add_column(column)
    for name, costs in found.items():
        table.add_row(name, *(f"{costs[n]:.2f}" if n in costs else "" for n in rows))
    return table


if __name__ == "__main__":
    main()
