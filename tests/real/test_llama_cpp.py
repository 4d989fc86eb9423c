"""SmolLM2's logits stay near llama.cpp's, on the file as the registry has it.

The recording holds llama.cpp's 64 best log-probabilities of every position and the mass of the
rest; merging outcomes can only lower a KL divergence: a bound from below, near the whole one.
`benchmarks/logits.py` measures the whole.
"""

from pathlib import Path

import numpy as np
import torch

from draftwalk.fetch import resolve
from draftwalk.models import open_model
from draftwalk.ops.torch import TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.target.load import build_target

CPU = torch.device("cpu")
RECORDING = Path(__file__).parent.parent / "fixtures" / "llama_cpp_smollm2.npz"
CHUNK = 100


def test_kl_divergence_from_llama_cpp() -> None:
    recorded = np.load(RECORDING)
    ids = recorded["ids"].tolist()
    target = build_target(
        open_model(resolve("smollm2-135m")), TorchOperations(CPU, torch.float32), len(ids)
    )
    state = target.new_state()
    state.open(0)
    divergence = []
    for start in range(0, len(ids), CHUNK):
        rows = Rows.lay_out([Rowset(0, ids[start : start + CHUNK], start)], CPU)
        with pass_over(state, rows) as kept:
            out = target.forward(rows, state, ())
            kept[0] = rows.size
        mine = out.logits.double().log_softmax(-1)
        part = slice(start, start + CHUNK)
        top = torch.from_numpy(recorded["top_ids"][part]).long()
        theirs = torch.from_numpy(recorded["top_logprobs"][part]).double()
        rest = torch.from_numpy(recorded["rest_logprob"][part]).double()
        best = mine.gather(-1, top)
        others = mine.scatter(-1, top, -torch.inf).logsumexp(-1)
        kl = (theirs.exp() * (theirs - best)).sum(-1) + rest.exp() * (rest - others)
        divergence.append(kl)
    kl = torch.cat(divergence)
    assert len(kl) == 500
    assert float(kl.mean()) <= 0.01
    assert float(kl.quantile(0.99)) <= 0.1
    assert float(kl.mean()) > 1e-6, "two different arithmetics cannot agree exactly"
