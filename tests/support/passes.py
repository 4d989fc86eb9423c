"""One pass of a target over a prompt."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from draftwalk.models import open_model
from draftwalk.ops.torch import TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.target.load import build_target

CPU = torch.device("cpu")


def logits_of(path: Path, ids: list[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Logits [len(ids), V] of a checkpoint, by the torch back end."""
    target = build_target(open_model(path), TorchOperations(CPU, dtype))
    state = target.new_state()
    state.open(0)
    rows = Rows.lay_out([Rowset(0, ids, 0)], CPU)
    with pass_over(state, rows) as kept:
        out = target.forward(rows, state, ())
        kept[0] = len(ids)
    return out.logits
