"""Top-k, top-p and min-p, exact to the last tie: tokens are ranked by (-logit, id), nothing else.

`ranked` finds the head of the ranking on the logits' device without sorting the vocabulary; `kept`
says where one row of it is cut, on the CPU. Both give a row the same result in any company.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.settings import Sampling

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


def ranked(rows: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The first `width` of each row in the order (-value, id): values and ids, both [R, width].

    topk alone picks arbitrarily among equal values at its edge. Where the edge falls between equal
    values it is asked again, for as many as reach the edge value in any row, and then all are put
    in order. (Which of several -inf comes last does not matter: they have no probability.)
    """
    values, ids = rows.topk(min(width + 1, rows.shape[1]))
    edge = values[:, width - 1 : width]
    split = (values[:, width:] == edge) & (edge > -torch.inf)
    if bool(split.any()):
        reach = int(((rows >= edge) & (rows > -torch.inf)).sum(-1).max())
        values, ids = rows.topk(max(reach, width))
    ids, order = ids.sort(-1)
    values, order = values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    return values[:, :width], ids.gather(-1, order)[:, :width]


def softmax(ranking: Floats) -> Floats:
    """Probabilities of one row of finite or -inf values whose largest is first."""
    weights = np.exp(ranking - ranking[0])
    return np.asarray(weights / weights.sum())


def kept(p: Floats, sampling: Sampling) -> int:
    """How many of a row's ranked probabilities top-p and min-p leave: at least 1.

    Top-p keeps a token if the mass before it is under top_p. Both cuts, and the end of what has any
    probability, are prefixes of the ranking.
    """
    counts = [int(np.count_nonzero(p > 0))]
    if sampling.top_p < 1:
        before = np.concatenate(([0.0], np.cumsum(p)[:-1]))
        counts.append(int(np.count_nonzero(before < sampling.top_p)))
    if sampling.min_p > 0:
        counts.append(int(np.count_nonzero(p >= sampling.min_p * p[0])))
    return max(1, min(counts))
