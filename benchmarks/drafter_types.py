"""What quantising a drafter costs: acceptance length by type, on the same texts.

    python benchmarks/drafter_types.py TARGET.gguf DRAFTER PROMPT_FOLDER [--types bf16 q8_0 …]
        [--suites …] [--prompts 12] [--tokens 128] [--threads 2]

The target answers the first turns of every suite's first lines greedily, once. The drafter is
converted to each type, and drafts behind every token of these texts that has a whole draft behind
it: so all types are tried at the same places, which a walk would not do. Acceptance length is the
mean of 1 + right tokens at the draft's beginning; beside it stands the difference from the first
type, with the interval of 95% when prompts are drawn again 2,000 times. A table goes to stderr, one
JSON document is the last line of stdout.
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
from draftwalk.draft import DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.load import build_drafter, read_config
from draftwalk.engine import Engine, Placement, load
from draftwalk.models import open_model
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.train.answers import AnswerSettings, answer
from draftwalk.train.conversations import Conversation
from draftwalk.train.shards import Answer, AnswerSet
from draftwalk.verify.noise import Noise
from prompts import SUITES, first_turns

TYPES = ("bf16", "q8_0", "q5_0", "q4_0", "q4_1", "q4_k_m")
CPU = torch.device("cpu")
DRAWS = 2000
TOGETHER = 16  # texts in a pass
Counts = np.ndarray  # [prompts, 2]: right tokens at the beginnings of drafts, drafts


def main() -> None:
    """Runs and reports."""
    asked = parse()
    torch.set_num_threads(asked.threads)
    engine = load(asked.target, placement=Placement(threads=asked.threads), plain=True)
    source = open_model(asked.drafter)
    found: dict[str, dict[str, object]] = {}
    first: Counts | None = None
    with tempfile.TemporaryDirectory() as folder:
        answers = answered(engine, asked, read_config(source).taps, Path(folder) / "answers")
        for name in asked.types:
            path = Path(folder) / f"{name}.gguf"
            options = Options(outtype=mix_of(name), target=engine.checkpoint, requantize=True)
            written = convert(source, path, "gguf", options)
            target = engine.target
            drafter = build_drafter(
                open_model(path), target.ops, target.tables, target.depth, target.context
            )
            counts = everywhere(drafter, answers)
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
    print(json.dumps({"places": int(first[:, 1].sum()), "types": found}))


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


def answered(
    engine: Engine, asked: argparse.Namespace, taps: tuple[int, ...], folder: Path
) -> list[Answer]:
    """The texts with their features."""
    texts = first_turns(asked.folder, asked.suites, asked.prompts)
    conversations = [Conversation(str(n), "eval", (text,)) for n, text in enumerate(texts)]
    settings = AnswerSettings(taps, sampled=0.0, max_tokens=asked.tokens, most_prompt=2048)
    answer(engine, conversations, folder, settings, lambda _: True)
    return list(AnswerSet(folder))


def everywhere(drafter: BlockDrafter, answers: Sequence[Answer]) -> Counts:
    """Of every answer, tokens gained by drafts behind all its tokens, and how many drafts."""
    counts = []
    for first in range(0, len(answers), TOGETHER):
        counts += drafted(drafter, answers[first : first + TOGETHER])
    return np.array(counts, float)


def drafted(drafter: BlockDrafter, answers: Sequence[Answer]) -> list[tuple[int, int]]:
    """The same of a few answers, in common passes."""
    window = drafter.block - 1
    texts = [answer.tokens.tolist() for answer in answers]
    anchors = [int(answer.learned.int().argmax()) for answer in answers]
    gained, known = [0] * len(texts), [0] * len(texts)
    made = [max(0, len(text) - window - at) for text, at in zip(texts, anchors, strict=True)]
    for slot in range(len(texts)):
        drafter.state.open(slot)
    for step in range(max(made)):
        going = [slot for slot in range(len(texts)) if step < made[slot]]
        ends = {slot: anchors[slot] + step for slot in going}
        rowsets = [Rowset(s, [0] * (ends[s] - known[s]), known[s], "none") for s in going]
        rows = Rows.lay_out(rowsets, CPU)
        features = torch.cat([answers[s].features[known[s] : ends[s]].float() for s in going])
        drafter.observe(rows, features, {s: ends[s] - known[s] for s in going})
        known = [ends.get(slot, old) for slot, old in enumerate(known)]
        requests = [
            DraftRequest(s, texts[s][: ends[s] + 1], window, Sampling(), Noise(0)) for s in going
        ]
        for slot, draft in zip(going, drafter.propose(requests), strict=True):
            following = texts[slot][ends[slot] + 1 :]
            right = [a == b for a, b in zip(draft.tokens, following, strict=False)]
            gained[slot] += sum(np.cumprod(right)) if right else 0
    for slot in range(len(texts)):
        drafter.state.close(slot)
    return list(zip(gained, made, strict=True))


def length(counts: Counts) -> float:
    """Over all places."""
    gained, drafts = counts.sum(0)
    return float(1 + gained / drafts)


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
