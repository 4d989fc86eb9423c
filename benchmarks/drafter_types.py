"""What quantising a drafter costs: acceptance length by type, on the same texts.

    python benchmarks/drafter_types.py TARGET.gguf DRAFTER PROMPT_FOLDER [--types bf16 q8_0 …]
        [--suites …] [--prompts 12] [--tokens 128] [--threads 2]

The drafter is converted to each type; all then draft for the same greedy texts of the first turns
of every suite's first lines, at their whole window. Acceptance length is pooled: 1 + accepted
tokens / verified drafts; beside it stands the difference from the first type, with the interval of
95% when prompts are drawn again 2,000 times. A table goes to stderr, one JSON document is the last
line of stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from draftwalk.convert import Options, convert, mix_of
from draftwalk.engine import Placement, load
from draftwalk.models import open_model
from draftwalk.prompt.messages import Message
from draftwalk.settings import Limits, Sampling
from prompts import SUITES, first_turns

TYPES = ("bf16", "q8_0", "q5_0", "q4_0", "q4_1", "q4_k_m")
DRAWS = 2000
Counts = np.ndarray  # [prompts, 2]: accepted tokens, verified drafts


def main() -> None:
    """Runs and reports."""
    asked = parse()
    torch.set_num_threads(asked.threads)
    found: dict[str, dict[str, object]] = {}
    first: Counts | None = None
    for name in asked.types:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "drafter.gguf"
            options = Options(
                outtype=mix_of(name), target=open_model(asked.target), requantize=True
            )
            written = convert(open_model(asked.drafter), path, "gguf", options)
            counts = accepted(asked.target, path, asked)
        first = counts if first is None else first
        found[name] = {
            "stored": dict(written.formats),
            "mb": round(written.bytes / 1e6, 1),
            "fallbacks": len(written.fallbacks),
            "acceptance_length": length(counts),
            "difference": length(counts) - length(first),
            "interval": interval(counts, first),
        }
        print(name, found[name], file=sys.stderr, flush=True)
    Console(stderr=True).print(table_of(found))
    print(json.dumps({"types": found}))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", type=Path)
    parser.add_argument("drafter", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--types", nargs="+", default=list(TYPES))
    parser.add_argument("--suites", nargs="+", default=list(SUITES))
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def accepted(target: Path, drafter: Path, asked: argparse.Namespace) -> Counts:
    """Accepted tokens and verified drafts of every prompt."""
    engine = load(target, drafter, Placement(threads=asked.threads))
    prompts = [
        engine.encode_chat([Message("user", text)])
        for text in first_turns(asked.folder, asked.suites, asked.prompts)
    ]
    results = engine.complete(prompts, Sampling(), Limits(max_tokens=asked.tokens))
    return np.array([[r.timings.draft_n_accepted, r.timings.verify_n] for r in results], float)


def length(counts: Counts) -> float:
    """Pooled acceptance length."""
    gained, verified = counts.sum(0)
    return float(1 + gained / verified)


def interval(counts: Counts, first: Counts) -> Sequence[float]:
    """Where the difference lies when prompts are drawn again."""
    rng = np.random.default_rng(1)
    draws = rng.integers(0, len(counts), (DRAWS, len(counts)))
    differences = [length(counts[draw]) - length(first[draw]) for draw in draws]
    low, high = np.quantile(differences, (0.025, 0.975))
    return [round(float(low), 4), round(float(high), 4)]


def table_of(found: dict[str, dict[str, object]]) -> Table:
    """One line for each type."""
    table = Table(title="the same drafter, the same texts")
    for column in ("type", "really stored", "MB", "acceptance length", "difference", "95%"):
        table.add_column(column)
    for name, one in found.items():
        stored = one["stored"]
        assert isinstance(stored, dict)
        table.add_row(
            name,
            ", ".join(f"{count} {kind}" for kind, count in stored.items()),
            str(one["mb"]),
            f"{one['acceptance_length']:.3f}",
            f"{one['difference']:+.3f}",
            str(one["interval"]),
        )
    return table


if __name__ == "__main__":
    main()
