"""Rows of logits that the extension looks at: the same winners and distributions, far sooner.

It takes fp32 logits on the CPU. Of a row it looks only at what may matter: in a race without
filters, at one logarithm for a handful of tokens. Its exp and log are its own, so that a seed gives
the same text on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from draftwalk.errors import UserError
from draftwalk.settings import Sampling
from draftwalk.verify.distribution import SCORES, Support, check_bias, row_fault
from draftwalk.verify.filters import Floats, Ids
from draftwalk.verify.noise import Noise, Purpose
from draftwalk.verify.penalties import changed, recent_counts

if TYPE_CHECKING:
    from draftwalk._native import Chooser

Filters = tuple[float, int, float, float]


@cache
def native_chooser() -> Chooser | None:
    """What chooses, on the longest vectors there are; `None` without the extension."""
    try:
        from draftwalk._native import Chooser
    except ImportError:
        return None
    return Chooser(Chooser.kinds()[0])


def chooser_for(logits: Tensor) -> Chooser | None:
    """What can choose from these rows, if anything can."""
    taken = logits.dtype == torch.float32 and logits.device.type == "cpu" and logits.is_contiguous()
    return native_chooser() if taken else None


def filters_of(sampling: Sampling) -> Filters:
    """The filters as the extension takes them."""
    temperature = 0.0 if sampling.greedy else sampling.temperature
    return temperature, sampling.top_k, sampling.top_p, sampling.min_p


class NativeRow:
    """One row of the target's or a drafter's logits.

    Args:
        chooser: what looks at it.
        logits: all rows [R, V].
        number: of this one.
        sampling: the filters.
        changes: ids whose logits biases and penalties have changed, and what they are now.
    """

    def __init__(
        self,
        chooser: Chooser,
        logits: Tensor,
        number: int,
        sampling: Sampling,
        changes: tuple[Ids, Floats] | None = None,
    ) -> None:
        self._chooser = chooser
        self._number = number
        self._filters = filters_of(sampling)
        self._owners = logits, changes  # of the memory that is named by address
        self._size = logits.shape[1]
        self._place = logits.data_ptr() + 4 * self._size * number
        self._changes = (0, 0, 0)
        if changes is not None:
            ids, values = changes
            self._changes = ids.ctypes.data, values.ctypes.data, len(ids)

    @property
    def _greedy(self) -> bool:
        return self._filters[0] == 0.0

    def race(self, noise: Noise, position: int) -> int | UserError:
        """The winner of the race for this position."""
        return self._choose(0 if self._greedy else noise.key(position, Purpose.TOKEN))

    def support(self) -> Support:
        """The row's distribution."""
        if self._greedy:
            token = self._choose(0)
            if isinstance(token, UserError):
                return Support.unusable(token)
            return Support.certain(token)
        ids, p, raw_peak, peak = self._chooser.distribution(
            self._place, self._size, self._changes, self._filters
        )
        if not len(ids):
            return Support.unusable(_fault(self._number, peak, raw_peak))
        return Support(torch.from_numpy(ids), torch.from_numpy(p))

    def _choose(self, start: int) -> int | UserError:
        token, raw_peak, peak = self._chooser.choose(
            self._place, self._size, self._changes, self._filters, start
        )
        return token if token >= 0 else _fault(self._number, peak, raw_peak)


class NativeCandidates:
    """A drafter's few candidates for one place.

    Args:
        chooser: what looks at them.
        ids: distinct token ids in any order.
        scores: their logits, as `candidates_changed` leaves them.
        sampling: the filters; top-p and min-p see only the candidates' probabilities.
    """

    def __init__(
        self, chooser: Chooser, ids: list[int], scores: list[float], sampling: Sampling
    ) -> None:
        self._chooser = chooser
        self._ids = ids
        self._scores = scores
        self._filters = filters_of(sampling)

    def race(self, noise: Noise, position: int) -> int | UserError:
        """The winner of the race for this position."""
        start = noise.key(position, Purpose.TOKEN)
        token, _, peak = self._chooser.choose_few(self._ids, self._scores, self._filters, start)
        return token if token >= 0 else _fault(0, peak, peak, SCORES)

    def support(self) -> Support:
        """Their distribution."""
        ids, p, _, peak = self._chooser.distribution_of_few(self._ids, self._scores, self._filters)
        if not len(ids):
            return Support.unusable(_fault(0, peak, peak, SCORES))
        return Support(torch.from_numpy(ids), torch.from_numpy(p))


def native_rows(
    chooser: Chooser,
    logits: Tensor,
    sampling: Sampling,
    history: Sequence[int],
    draft: Sequence[int],
) -> Iterator[NativeRow]:
    """Rows one by one: row i has seen history + draft[:i], and draft may grow until then."""
    if sampling.plain:
        for n in range(len(logits)):
            yield NativeRow(chooser, logits, n, sampling)
        return
    check_bias(sampling.logit_bias, logits.shape[1])
    last_n = sampling.repeat_last_n if sampling.penalised else 0
    counts = recent_counts(history, draft, last_n)
    for n, seen in zip(range(len(logits)), counts, strict=False):
        changes = _changed(logits[n], sampling, seen)
        yield NativeRow(chooser, logits, n, sampling, changes)


def native_walk(
    chooser: Chooser,
    candidates: Tensor,
    scores: Tensor,
    rows: range,
    sampling: Sampling,
    noise: Noise,
    position: int,
) -> tuple[list[int], list[float]]:
    """DFlash2's path under the coupled rule: tokens, and each transition's own probability.

    Args:
        chooser: what takes it.
        candidates: [M, K] ids.
        scores: [M, K, K] after each candidate of the row before.
        rows: the path's.
        sampling: the filters; it changes no logits.
        noise: the request's noise.
        position: of the first token.
    """
    assert candidates.is_contiguous(), "rows lie one after the other"
    K = candidates.shape[1]
    return chooser.walk(
        candidates.data_ptr() + 8 * K * rows.start,
        scores.data_ptr() + 4 * K * K * rows.start,
        len(rows),
        K,
        filters_of(sampling),
        0 if sampling.greedy else noise.unmixed(position, Purpose.TOKEN),
    )


def _changed(row: Tensor, sampling: Sampling, seen: Mapping[int, int]) -> tuple[Ids, Floats]:
    """What biases and penalties make of the logits they name; ids ascending."""
    V = len(row)
    tokens = sorted({*sampling.logit_bias, *(token for token in seen if 0 <= token < V)})
    ids = np.array(tokens, np.int64)
    return ids, changed(row.numpy()[ids].astype(np.float64), tokens, seen, sampling)


def _fault(number: int, peak: float, raw_peak: float, what: str = "the logits") -> UserError:
    fault = row_fault(number, peak, raw_peak, what)
    assert fault is not None, "a row with such peaks can be used"
    return fault
