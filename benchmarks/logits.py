"""How far a target's logits are from llama.cpp's on the same GGUF file and text.

    python benchmarks/logits.py MODEL.gguf RECORDING.npz

RECORDING is what `referee/llama_cpp_logits.py MODEL --full RECORDING.npz` wrote: ids [n] and logits
[n, V]. Prints mean and 99th percentile of the KL divergence, to stderr in words, to stdout as JSON.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch

from draftwalk.models import open_model
from draftwalk.ops.torch import TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.target.load import build_target

CPU = torch.device("cpu")
CHUNK = 128


def logits_of(path: Path, ids: list[int]) -> torch.Tensor:
    """Logits [n, V] of every position of a text, in fp32."""
    target = build_target(open_model(path), TorchOperations(CPU, torch.float32), len(ids))
    state = target.new_state()
    state.open(0)
    parts = []
    for start in range(0, len(ids), CHUNK):
        rows = Rows.lay_out([Rowset(0, ids[start : start + CHUNK], start)], CPU)
        with pass_over(state, rows) as kept:
            out = target.forward(rows, state, ())
            kept[0] = rows.size
        parts.append(out.logits)
    return torch.cat(parts)


def main() -> None:
    """Compares and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("recording", type=Path)
    asked = parser.parse_args()
    model, recorded = asked.model, np.load(asked.recording)
    if "logits" not in recorded:
        parser.error(f"{asked.recording} holds no logits: record them with --full")
    mine = logits_of(model, recorded["ids"].tolist()).double().log_softmax(-1)
    theirs = torch.from_numpy(recorded["logits"]).double().log_softmax(-1)
    width = min(mine.shape[1], theirs.shape[1])
    p = theirs[:, :width].exp()
    divergence = (p * (theirs - mine)[:, :width]).sum(-1)
    mean, high = float(divergence.mean()), float(divergence.quantile(0.99))
    print(f"KL mean {mean:.5f}, 99th percentile {high:.5f} of {len(mine)} tokens", file=sys.stderr)
    print(json.dumps({"model": model.name, "kl_mean": mean, "kl_p99": high}))


if __name__ == "__main__":
    main()
