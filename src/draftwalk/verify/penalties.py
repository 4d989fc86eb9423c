"""Penalties for recent tokens, row by row: a drafted row has seen the draft before it.

The formula and the shared window of `repeat_last_n` tokens of prompt and text are llama.cpp's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from draftwalk.settings import Sampling


def recent(history: Sequence[int], last_n: int) -> Sequence[int]:
    """The tokens that count as recent at the end of history."""
    if last_n < 0:
        return history
    return history[max(0, len(history) - last_n) :]


def recent_counts(
    history: Sequence[int], draft: Sequence[int], last_n: int
) -> Iterator[Mapping[int, int]]:
    """For each row i, how often each token occurs among the last_n before it, draft[:i] included.

    One mapping slides along the draft: read it before asking for the next row's. The draft may grow
    by a token in between.
    """
    start = recent(history, last_n)
    size = len(start)
    counts = Counter(start)
    yield counts
    for i, token in enumerate(draft):
        counts[token] += 1
        leaving = size + i - last_n
        if last_n >= 0 and leaving >= 0:
            gone = start[leaving] if leaving < size else draft[leaving - size]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
        yield counts


def penalise(logits: Tensor, counts: Tensor, sampling: Sampling) -> Tensor:
    """The logits of tokens that occur `counts` times, 0 allowed; both float64."""
    factor = sampling.repeat_penalty
    scaled = torch.where(logits > 0, logits / factor, logits * factor)
    present = counts > 0
    shifted = scaled - counts * sampling.frequency_penalty - sampling.presence_penalty
    return torch.where(present, shifted, logits)


def penalise_rows(
    rows: Tensor, sampling: Sampling, history: Sequence[int], draft: Sequence[int]
) -> None:
    """Change rows [R, V] float64 in place; row i has seen history + draft[:i]."""
    V = rows.shape[1]
    row_index: list[int] = []
    ids: list[int] = []
    counts: list[int] = []
    for i, seen in enumerate(recent_counts(history, draft, sampling.repeat_last_n)):
        known = [token for token in seen if 0 <= token < V]  # an image's placeholder has no logit
        row_index += [i] * len(known)
        ids += known
        counts += [seen[token] for token in known]
    where = (
        torch.tensor(row_index, dtype=torch.int64, device=rows.device),
        torch.tensor(ids, dtype=torch.int64, device=rows.device),
    )
    times = torch.tensor(counts, dtype=torch.float64, device=rows.device)
    rows[where] = penalise(rows[where], times, sampling)
