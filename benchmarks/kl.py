"""How far quantised arithmetic moves a model's distribution: draftwalk's and llama.cpp's.

    python benchmarks/kl.py --text FILE [--models NAME...] [--tokens 2000] [--gemma PATH]

p is the float32 distribution of the same dequantised weights (the torch back end, K/V in float32),
q that of an engine as it computes by default. Prints the mean KL divergence of both and their ratio
to stderr; one JSON document is the last line of stdout. FILE is a text, or JSON lines with "turns".
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from cpu_parts.arm import Arm, Logits
from cpu_parts.draftwalk_arm import DraftwalkArm, resolve_back_end
from cpu_parts.model_files import DEFAULT_FOLDER, GEMMA, SMOLLM2, Sources, model_file
from cpu_parts.remote import ArmError, RemoteArm
from cpu_parts.report import OURS, RIVAL
from cpu_parts.text import chunks_of, read_text
from draftwalk.errors import UserError

ROOT = Path(__file__).parent.parent
LONGEST = 512  # tokens of a context
ROWS = 64  # of a pass
STDERR = Console(stderr=True, width=None if sys.stderr.isatty() else 160)


def divergences(p: Logits, q: Logits) -> Tensor:
    """KL(p, q) of every row, in float64."""
    log_p, log_q = (torch.from_numpy(one).double().log_softmax(-1) for one in (p, q))
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def compare(
    reference: Arm, arms: Mapping[str, Arm], chunks: list[list[int]], skipped: int
) -> dict[str, Tensor]:
    """Divergences of all rows behind the first `skipped` of each chunk, by engine."""
    found: dict[str, list[Tensor]] = {name: [] for name in arms}
    starts = [(chunk, at) for chunk in chunks for at in range(0, len(chunk), ROWS)]
    for chunk, at in track(starts, "comparing", console=STDERR, transient=True):
        everybody = [reference, *arms.values()]
        if at == 0:
            for arm in everybody:
                arm.read([])
        rows = [arm.logits(chunk[at : at + ROWS]) for arm in everybody]
        first = max(0, skipped - at)
        for name, values in zip(arms, rows[1:], strict=True):
            found[name].append(divergences(rows[0][first:], values[first:]))
    return {name: torch.cat(parts) for name, parts in found.items()}


def measured(path: Path, text: str, asked: argparse.Namespace) -> dict[str, object]:
    """One model's entry."""
    skipped, chunks = chunks_of(path, text, asked.tokens, LONGEST)
    reference = DraftwalkArm("torch")
    reference.load(path, asked.threads, LONGEST)
    with ExitStack() as stack:
        arms: dict[str, Arm] = {}
        if resolve_back_end(asked.backend) == "native":  # torch is the reference itself
            arms[OURS] = DraftwalkArm("native")
        arms[RIVAL] = stack.enter_context(RemoteArm(asked.referee.absolute(), RIVAL))
        for arm in arms.values():
            arm.load(path, asked.threads, LONGEST)
        found = compare(reference, arms, chunks, skipped)
    entry: dict[str, object] = {"tokens": asked.tokens}
    for name, values in found.items():
        entry[name] = {"mean": float(values.mean()), "p99": float(values.quantile(0.99))}
    if OURS in found:
        entry["ratio"] = float(found[OURS].mean() / found[RIVAL].mean())
    return entry


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=["smollm2-q4_1", "gemma3-270m"])
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--backend", choices=("auto", "native", "torch"), default="auto")
    parser.add_argument("--referee", type=Path, default=ROOT / ".referee" / "bin" / "python")
    parser.add_argument("--smollm2", type=Path, help="the file, else it is fetched by name")
    parser.add_argument("--gemma", type=Path, help="the file of Gemma 3 270M")
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, help="keeps written models")
    return parser.parse_args()


def main() -> None:
    """Compares and reports."""
    asked = parse()
    given = {SMOLLM2: asked.smollm2, GEMMA: asked.gemma}
    sources = Sources(asked.out, {name: path for name, path in given.items() if path is not None})
    report: dict[str, object] = {}
    try:
        text = read_text(asked.text)
        for name in asked.models:
            report[name] = measured(model_file(name, sources), text, asked)
            STDERR.print(f"{name}: {report[name]}", highlight=False)
    except (UserError, ArmError) as error:
        sys.exit(f"error: {error}")
    print(json.dumps({"kl": report}))


if __name__ == "__main__":
    main()
