"""How far two recordings of logits are apart: KL divergence of B from A, position by position.

    python referee/compare_logits.py A.npz B.npz

Both files hold `ids` [n] and `logits` [n, vocabulary], for the same ids; A is the reference.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from llama_cpp_logits import log_softmax


def main() -> None:
    """Print mean, 99th percentile and largest divergence, and how often the best tokens agree."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: compare_logits.py A.npz B.npz")
    first, second = (np.load(Path(name)) for name in sys.argv[1:])
    if not np.array_equal(first["ids"], second["ids"]):
        raise SystemExit("the two files are of different texts")
    divergence, agree = compare(first["logits"], second["logits"])
    print(
        f"KL mean {divergence.mean():.5f}, 99th percentile {np.percentile(divergence, 99):.5f}, "
        f"largest {divergence.max():.5f}; same best token at {agree:.1%} of {len(divergence)}"
    )


def compare(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, float]:
    """Divergence of every row, and the share of rows with the same argmax.

    Rows may be of different widths (one file format drops unused ids): the common part counts.
    """
    width = min(first.shape[1], second.shape[1])
    divergence = np.empty(len(first))
    for row, (a, b) in enumerate(zip(first[:, :width], second[:, :width], strict=True)):
        p, q = log_softmax(a), log_softmax(b)
        divergence[row] = (np.exp(p) * (p - q)).sum()
    agree = float((first[:, :width].argmax(1) == second[:, :width].argmax(1)).mean())
    return divergence, agree


if __name__ == "__main__":
    main()
