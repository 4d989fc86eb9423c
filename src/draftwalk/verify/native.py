"""Rows of logits that the extension looks at: the same winners and distributions, far sooner.

It takes fp32 logits on the CPU. Of a row it looks only at what may matter: in a race without
filters, at one logarithm for a handful of tokens. Its exp and log are its own, so that a seed gives
the same text on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftwalk.errors import UserError
from draftwalk.settings import Sampling
from draftwalk.verify.distribution import Support, check_bias, row_fault
from draftwalk.verify.noise import Noise, Purpose
from draftwalk.verify.penalties import recent, recent_counts

if TYPE_CHECKING:
    from draftwalk._native import Chooser

Filters = tuple[float, int, float, float]
Penalties = tuple[float, float, float]
Changes = tuple[Sequence[int], Sequence[float], Sequence[float], Penalties]

NO_CHANGES: Changes = ((), (), (), (1.0, 0.0, 0.0))


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
        changes: ids, their biases, how often the recent text has them, and the penalties for that.
    """

    def __init__(
        self,
        chooser: Chooser,
        logits: Tensor,
        number: int,
        sampling: Sampling,
        changes: Changes = NO_CHANGES,
    ) -> None:
        self._chooser = chooser
        self._logits = logits  # whose memory is named by address
        self._number = number
        self._size = logits.shape[1]
        self._place = logits.data_ptr() + 4 * self._size * number
        self._filters = filters_of(sampling)
        self._changes = changes

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
        (ids, p), raw_peak, peak = self._chooser.distribution(
            self._place, self._size, self._changes, self._filters
        )
        if not len(ids):
            return Support.unusable(self._fault(peak, raw_peak))
        return Support(torch.from_numpy(ids), torch.from_numpy(p))

    def _choose(self, start: int) -> int | UserError:
        token, raw_peak, peak = self._chooser.choose(
            self._place, self._size, self._changes, self._filters, start
        )
        return token if token >= 0 else self._fault(peak, raw_peak)

    def _fault(self, peak: float, raw_peak: float) -> UserError:
        fault = row_fault(self._number, peak, raw_peak)
        assert fault is not None, "a row with such peaks can be used"
        return fault


def native_rows(
    chooser: Chooser,
    logits: Tensor,
    sampling: Sampling,
    history: Sequence[int],
    draft: Sequence[int],
) -> Iterator[NativeRow]:
    """Rows one by one: row i has seen history + draft[:i], and draft may grow until then."""
    R, V = logits.shape
    if sampling.plain:
        for n in range(R):
            yield NativeRow(chooser, logits, n, sampling)
        return
    check_bias(sampling.logit_bias, V)
    last_n = sampling.repeat_last_n if sampling.penalised else 0
    for n, seen in zip(range(R), recent_counts(history, draft, last_n), strict=False):
        yield NativeRow(chooser, logits, n, sampling, _changes(V, sampling, seen))


def _changes(vocabulary: int, sampling: Sampling, seen: Mapping[int, int]) -> Changes:
    """What changes the logits of a row, as the extension takes it."""
    bias = sampling.logit_bias
    ids = [token for token in seen if 0 <= token < vocabulary]
    if bias:
        ids = list({*ids, *bias})
    biases = [bias.get(token, 0.0) for token in ids]
    times = [float(seen.get(token, 0)) for token in ids]
    return ids, biases, times, _penalties(sampling)


def _penalties(sampling: Sampling) -> Penalties:
    return sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty


@dataclass(frozen=True, slots=True)
class Lattice:
    """What DFlash2's paths are looked for in.

    Attributes:
        candidates: [M, K] ids of the drafted rows of all blocks.
        scores: [M, K, K] after each candidate of the row before.
    """

    candidates: Tensor
    scores: Tensor


def native_walk(
    chooser: Chooser,
    lattice: Lattice,
    rows: range,
    sampling: Sampling,
    noise: Noise,
    history: Sequence[int],
) -> tuple[list[int], list[float], list[Support]]:
    """A path: tokens, each transition's own probability, and q under the rejection rule.

    Args:
        chooser: what looks for it.
        lattice: whose scores it can take.
        rows: of one block.
        sampling: filters, biases, penalties and rule.
        noise: the request's noise.
        history: committed tokens, the anchor last.
    """
    assert lattice.candidates.is_contiguous(), "rows lie one after the other"
    K, position = lattice.candidates.shape[1], len(history)
    first, uniforms = 0, []
    if sampling.rule == "rejection":
        uniforms = [noise.uniform(position + n, Purpose.DRAFT) for n in range(len(rows))]
    elif not sampling.greedy:
        first = noise.unmixed(position, Purpose.TOKEN)
    last_n = sampling.repeat_last_n if sampling.penalised else 0
    bias = sampling.logit_bias
    if bias:  # there may be many: only those of candidates matter
        named = {n for ids in lattice.candidates[rows.start : rows.stop].tolist() for n in ids}
        bias = {token: bias[token] for token in named & bias.keys()}
    tokens, confidence, q = chooser.walk(
        lattice.candidates.data_ptr() + 8 * K * rows.start,
        lattice.scores.data_ptr() + 4 * K * K * rows.start,
        len(rows),
        K,
        filters_of(sampling),
        (recent(history, last_n), last_n, bias, _penalties(sampling)),
        first,
        uniforms,
    )
    drawn = [Support(torch.from_numpy(ids), torch.from_numpy(p)) for ids, p in q]
    return tokens, confidence, drawn
