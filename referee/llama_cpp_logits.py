"""Record llama.cpp's logits for about 500 tokens of English text under a real GGUF model.

    python referee/llama_cpp_logits.py MODEL.gguf --fixture NAME   (llama_cpp_NAME.npz)
    python referee/llama_cpp_logits.py MODEL.gguf --full FILE.npz  (for compare_logits.py)

The fixture keeps the most probable tokens of every position and the mass of all others together.
Two distributions seen through such a coarse view differ by no more than the full ones do, so a
divergence computed from it is a lower bound, and close where the other tokens have little mass.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fixtures import FIXTURES, ROOT
from libllama import LlamaModel

TEXTS = ("gsm8k", "mtbench")
TOKENS = 500
KEPT = 64


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="record llama.cpp's logits")
    parser.add_argument("model", type=Path)
    parser.add_argument("--fixture", help="name of the compact fixture to rewrite")
    parser.add_argument("--full", type=Path, help="npz file for ids and all logits")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    if options.fixture is None and options.full is None:
        parser.error("nothing to write: give --fixture or --full")

    with LlamaModel(options.model, options.threads) as model:
        ids = model.tokenize(english_text(), add_special=True)[:TOKENS]
        logits = model.logits(ids)
    if options.full is not None:
        np.savez(options.full, ids=np.array(ids, dtype=np.int32), logits=logits)
    if options.fixture is not None:
        path = FIXTURES / f"llama_cpp_{options.fixture}.npz"
        rest = write_compact(path, ids, logits)
        print(f"{path.name}: {path.stat().st_size} bytes, {len(ids)} tokens, {rest}")


def english_text() -> str:
    """The carried prompts of TEXTS as one running text."""
    turns: list[str] = []
    for name in TEXTS:
        path = ROOT / "tests" / "prompts" / f"{name}.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines():
            turns.extend(json.loads(line)["turns"])
    return "\n\n".join(turns)


def write_compact(path: Path, ids: list[int], logits: np.ndarray) -> str:
    """Write the compact fixture and say how much mass it lumps together."""
    top_ids = np.empty((len(ids), KEPT), dtype=np.int32)
    top_logprobs = np.empty((len(ids), KEPT), dtype=np.float32)
    rest_logprob = np.empty(len(ids), dtype=np.float32)
    for row, values in enumerate(logits):
        logprobs = log_softmax(values)
        # Stable, so that equal logits keep the order of their ids.
        order = np.argsort(-logprobs, kind="stable")
        top_ids[row], top_logprobs[row] = order[:KEPT], logprobs[order[:KEPT]]
        rest_logprob[row] = log_sum_exp(logprobs[order[KEPT:]])
    np.savez_compressed(
        path,
        ids=np.array(ids, dtype=np.int32),
        top_ids=top_ids,
        top_logprobs=top_logprobs,
        rest_logprob=rest_logprob,
    )
    rest = np.exp(rest_logprob)
    return f"mass of the other tokens: mean {rest.mean():.3f}, largest {rest.max():.3f}"


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities in float64."""
    values = logits.astype(np.float64)
    return values - log_sum_exp(values)


def log_sum_exp(values: np.ndarray) -> float:
    """Logarithm of a sum of exponentials, without overflow."""
    largest = values.max()
    return float(largest + np.log(np.exp(values - largest).sum()))


if __name__ == "__main__":
    main()
