"""Drafts of one drafter here and in llama.cpp: acceptance on own texts, and position by position.

    python benchmarks/drafts.py TARGET.gguf DRAFTER.gguf PROMPT_FOLDER [--suites …] [--prompts 25]
        [--tokens 128] [--threads 2] [--float32] [--referee PYTHON]

Both answer the first turns of every suite's first lines greedily, with the window at the block's
size less one. llama.cpp's acceptance rate is its server's (xllamacpp) over its own texts, ours is
over ours. Where both texts agree for 32 tokens, both draft behind each of these, and the drafts are
compared position by position; with --float32 also with those of the same weights on activations in
float32, which neither engine has. A table goes to stderr, one JSON document is the last line of
stdout.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch

from draftwalk.draft import DraftRequest
from draftwalk.engine import Engine, Placement, load
from draftwalk.prompt.messages import Message
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.state import pass_over
from draftwalk.verify.noise import Noise
from prompts import SUITES, first_turns

ROOT = Path(__file__).parent.parent
CPU = torch.device("cpu")
AGREE = 32  # tokens
Draft = tuple[int, ...]


def main() -> None:
    """Runs and reports."""
    asked = parse()
    torch.set_num_threads(asked.threads)
    engine = load(asked.target, asked.drafter, Placement(threads=asked.threads))
    prompts = [
        engine.encode_chat([Message("user", text)])
        for text in first_turns(asked.folder, asked.suites, asked.prompts)
    ]
    ours = engine.complete(prompts, Sampling(), Limits(max_tokens=asked.tokens), Window())
    drafted = sum(result.timings.draft_n for result in ours)
    stood = sum(result.timings.draft_n_accepted for result in ours)
    window = engine.drafter.block - 1
    models = (str(asked.target), str(asked.drafter))
    sizes = (str(window), str(asked.tokens), str(asked.threads))
    theirs = ask(asked.referee, "llama_server.py", (*models, *sizes), prompts)
    texts = [
        {"prompt": prompt, "answer": list(mine.tokens[:AGREE])}
        for prompt, mine, other in zip(prompts, ours, theirs, strict=True)
        if len(mine.tokens) >= AGREE and list(mine.tokens[:AGREE]) == other["tokens"][:AGREE]
    ]
    report = {
        "prompts": len(prompts),
        "tokens": [sum(len(r.tokens) for r in ours), sum(len(t["tokens"]) for t in theirs)],
        "acceptance_rate": {
            "draftwalk": stood / drafted,
            "llama.cpp": sum(t["draft_n_accepted"] for t in theirs)
            / max(1, sum(t["draft_n"] for t in theirs)),
        },
        "texts_that_agree": len(texts),
        **compared(engine, asked, texts),
    }
    print(json.dumps(report, indent=1), file=sys.stderr)
    print(json.dumps(report))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", type=Path)
    parser.add_argument("drafter", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suites", nargs="+", default=list(SUITES))
    parser.add_argument("--prompts", type=int, default=25)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--referee", type=Path, default=ROOT / ".referee" / "bin" / "python")
    return parser.parse_args()


def ask(python: Path, script: str, arguments: Iterable[str], lines: Sequence[object]) -> list[dict]:
    """What a script of the referee's environment answers, line by line."""
    command = [str(python.absolute()), str(ROOT / "referee" / script), *arguments]
    asked = "".join(json.dumps(line) + "\n" for line in lines)
    run = subprocess.run(command, input=asked, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith(("{", "["))]


def compared(
    engine: Engine, asked: argparse.Namespace, texts: Sequence[dict[str, list[int]]]
) -> dict[str, object]:
    """Shares of positions and of whole drafts that are equal."""
    config = engine.drafter.config
    selector = config.selector
    facts = (
        str(config.block),
        str(config.mask),
        ",".join(map(str, config.taps)),
        str(selector.candidates),
        str(int(config.causal[0])),
        str(asked.threads),
    )
    models = (str(asked.target), str(asked.drafter))
    theirs = [
        [tuple(draft) for draft in drafts]
        for drafts in ask(asked.referee, "llama_cpp_forced.py", (*models, *facts), texts)
    ]
    ours = [forced(engine, text["prompt"], text["answer"]) for text in texts]
    pairs = list(drafts_of_both(ours, theirs))
    found: dict[str, object] = {
        "positions": sum(len(mine) for mine, _ in pairs),
        "equal_positions": equal(ours, theirs),
        "equal_drafts": sum(mine == its for mine, its in pairs) / max(1, len(pairs)),
    }
    if asked.float32:
        exact = load(asked.target, asked.drafter, Placement(back_end="torch"))
        both = [forced(exact, text["prompt"], text["answer"]) for text in texts]
        found["equal_to_float32"] = {
            "draftwalk": equal(ours, both),
            "llama.cpp": equal(theirs, both),
        }
    return found


def drafts_of_both(
    some: Sequence[Sequence[Draft]], others: Sequence[Sequence[Draft]]
) -> Iterator[tuple[Draft, Draft]]:
    """Drafts of two engines at the same places."""
    for mine, its in zip(some, others, strict=True):
        yield from zip(mine, its, strict=True)


def equal(some: Sequence[Sequence[Draft]], others: Sequence[Sequence[Draft]]) -> float:
    """Share of drafted positions that are equal."""
    same = [
        a == b for mine, its in drafts_of_both(some, others) for a, b in zip(mine, its, strict=True)
    ]
    return sum(same) / max(1, len(same))


def forced(engine: Engine, prompt: list[int], answer: list[int]) -> list[Draft]:
    """Our drafts behind every token of an answer."""
    target, drafter = engine.target, engine.drafter
    state = target.new_state()
    state.open(0)
    drafter.state.open(0)
    drafts = []
    try:
        text = list(prompt)
        read(engine, state, text, 0)
        for anchor in answer:
            text.append(anchor)
            wanted = DraftRequest(0, text, drafter.block - 1, Sampling(), Noise(0))
            drafts.append(drafter.propose([wanted])[0].tokens)
            read(engine, state, [anchor], len(text) - 1)
    finally:
        drafter.state.close(0)
    return drafts


def read(engine: Engine, state: object, ids: Sequence[int], context: int) -> None:
    """The target reads tokens, and the drafter learns their features."""
    rows = Rows.lay_out([Rowset(0, ids, context, "none")], CPU)
    with pass_over(state, rows) as kept:
        out = engine.target.forward(rows, state, engine.drafter.taps)
        kept[0] = len(ids)
    engine.drafter.observe(rows, out.features, {0: len(ids)})


if __name__ == "__main__":
    main()
