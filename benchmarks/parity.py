"""Speculative text against plain text on a real model: equal, or the difference explained.

    python benchmarks/parity.py TARGET.gguf PROMPT_FOLDER [--suites gsm8k mtbench humaneval]
        [--prompts 20] [--tokens 128] [--dtypes float64 float32]

PROMPT_FOLDER holds a JSONL file per suite; the first turn of each line is the prompt. Every suite
runs as one batch, greedy and with one seed at temperature 0.7, with the packaged drafter and with
none. float32 runs on the native back end where there is one, float64 on torch. Where texts differ,
the first differing token is looked up: the gap between the two tokens' scores (logits, or
logits / T plus Gumbel noise) in float64, beside how far float32 moves the logits of that row. A
table goes to stderr, one JSON document is the last line of stdout.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from draftwalk.engine import Engine, Placement, load
from draftwalk.prompt.messages import Message
from draftwalk.result import Result
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.state import pass_over
from draftwalk.verify.noise import Noise
from prompts import first_turns

CPU = torch.device("cpu")
SEED = 20
SAMPLINGS = {"greedy": Sampling(), "seeded": Sampling(temperature=0.7, seed=SEED)}


def last_logits(engine: Engine, ids: Sequence[int]) -> Tensor:
    """Logits after a text, read in one pass."""
    target, state = engine.target, engine.target.new_state()
    state.open(0)
    rows = Rows.lay_out([Rowset(0, ids, 0, "last")], CPU)
    with pass_over(state, rows):
        out = target.forward(rows, state, ())
    return out.logits[0].double()


def explain(
    engines: dict[str, Engine],
    prompt: list[int],
    plain: Result,
    drafted: Result,
    sampling: Sampling,
) -> dict[str, float | int | bool]:
    """The first difference of two texts, and whether float32's own rounding explains it."""
    pairs = zip(plain.tokens, drafted.tokens, strict=False)
    index = next(n for n, (a, b) in enumerate(pairs) if a != b)
    text = [*prompt, *plain.tokens[:index]]
    exact, rounded = (last_logits(engines[name], text) for name in ("float64", "float32"))
    chosen = torch.tensor([plain.tokens[index], drafted.tokens[index]])
    scores, moved = exact[chosen], (rounded - exact).abs()[chosen].sum().item()
    if not sampling.greedy:
        noise = Noise(SEED).exponentials(len(text), chosen)
        scores, moved = scores / 0.7 - noise.log(), moved / 0.7
    gap = abs(float(scores[0] - scores[1]))
    return {"token": index, "gap": gap, "rounding": moved, "explained": gap <= 2 * moved}


def main() -> None:
    """Runs all suites and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suites", nargs="+", default=["gsm8k", "mtbench", "humaneval"])
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    limits = Limits(max_tokens=asked.tokens)
    placements = {
        name: Placement(dtype=getattr(torch, name), threads=asked.threads)
        for name in ("float64", "float32")
    }
    engines = {name: load(asked.target, placement=one) for name, one in placements.items()}
    plain_engines = {
        name: load(asked.target, placement=placements[name], plain=True) for name in asked.dtypes
    }
    report = []
    for suite in asked.suites:
        texts = first_turns(asked.folder, [suite], asked.prompts)
        prompts = [engines["float64"].encode_chat([Message("user", text)]) for text in texts]
        for name, sampling in SAMPLINGS.items():
            for dtype in asked.dtypes:
                plain = plain_engines[dtype].complete(prompts, sampling, limits)
                drafted = engines[dtype].complete(prompts, sampling, limits, Window())
                differing = [
                    {"prompt": n, **explain(engines, prompts[n], a, b, sampling)}
                    for n, (a, b) in enumerate(zip(plain, drafted, strict=True))
                    if a.tokens != b.tokens
                ]
                verified = sum(result.timings.verify_n for result in drafted)
                accepted = sum(result.timings.draft_n_accepted for result in drafted)
                entry = {
                    "suite": suite,
                    "sampling": name,
                    "dtype": dtype,
                    "back_end": type(engines[dtype].target.ops).__name__,
                    "equal": len(prompts) - len(differing),
                    "prompts": len(prompts),
                    "tokens": sum(len(result.tokens) for result in drafted),
                    "acceptance_length": 1 + accepted / verified,
                    "differing": differing,
                }
                report.append(entry)
                print(entry, file=sys.stderr, flush=True)
    print(json.dumps({"parity": report}))


if __name__ == "__main__":
    main()
