"""From logits to distributions: the one place that says what p is.

Order: bias and bans, penalties (a row has seen the draft before it), temperature, top-k, top-p,
min-p; ties go to the lowest id. A distribution is a `Support`: the ids that are left and their
probabilities, float64, on the CPU. Greedy is a support of one and needs no softmax.

A row whose logits are unusable becomes a support with a fault instead of an exception, because a
row behind a rejected draft does not exist for plain decoding and must not end a text. The verdict
ends at the fault if it gets there.

This is the reference, for any float type and device; `native.py` looks at fp32 rows on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from draftwalk.errors import NumericalError, PromptError, UserError
from draftwalk.settings import Sampling
from draftwalk.verify.filters import Floats, Ids, kept, ranked, softmax
from draftwalk.verify.noise import Noise, exponential
from draftwalk.verify.penalties import penalise, penalise_rows, recent_counts

_LARGEST = 1e300  # finite even after division by the lowest temperature
_CERTAIN = torch.ones(1, dtype=torch.float64)
_NUMPY_TYPES = (torch.float32, torch.float64)
_FIRST_WIDTH = 128  # ranks looked at for top-p and min-p before trying more; no effect on results
_SLACK = 1 + 2.0**-40  # far above the rounding of a logarithm and a division, far below a rival


@dataclass(frozen=True, eq=False)
class Support:
    """A distribution over the few or many tokens that are left after the filters.

    Args:
        ids: [S] int64, ascending.
        p: [S] float64, each positive, sum 1.
        fault: what is wrong with the row; then ids and p are empty.
    """

    ids: Tensor
    p: Tensor
    fault: UserError | None = None

    @classmethod
    def certain(cls, token: int) -> Support:
        """All probability on one token: greedy, or a drafter that draws nothing."""
        return cls(torch.tensor([token]), _CERTAIN)

    @classmethod
    def unusable(cls, fault: UserError) -> Support:
        """No distribution, and why."""
        return cls(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64), fault)

    def probability(self, token: int) -> float:
        """The token's probability, 0 outside the support."""
        ids = self.ids.numpy()
        i = int(ids.searchsorted(token))
        return float(self.p.numpy()[i]) if i < len(ids) and ids[i] == token else 0.0

    def race(self, noise: Noise, position: int) -> int | UserError:
        """The winner of the race for this position, or the fault; ties go to the lowest id.

        E >= u, so a token can win only if u/p is within the E/p of the token that has the least
        u/p. That leaves a handful of logarithms however large the vocabulary is.
        """
        if self.fault is not None:
            return self.fault
        ids, p = self.ids.numpy(), self.p.numpy()
        if len(ids) == 1:
            return int(ids[0])
        u = noise.uniforms_on_host(position, ids)
        with np.errstate(over="ignore"):  # it is so for tokens that never win
            ratio = u / p
        first = int(ratio.argmin())
        bound = exponential(u[first].item()) / p[first].item() * _SLACK
        rivals = (ratio <= bound).nonzero()[0].tolist()
        times = [(exponential(u[i].item()) / p[i].item(), int(ids[i])) for i in rivals]
        return min(times)[1]

    def support(self) -> Support:
        """Itself, as a row of which nothing is left to be worked out."""
        return self


def supports(
    logits: Tensor, sampling: Sampling, history: Sequence[int], draft: Sequence[int]
) -> list[Support]:
    """The target's distributions for the rows of one sequence.

    Args:
        logits: [R, V], any float type and device; R = len(draft) + 1.
        sampling: the filters.
        history: all committed tokens, prompt included, the anchor last.
        draft: the drafted tokens; row i has seen history + draft[:i].
    """
    R, V = logits.shape
    assert len(draft) + 1 == R, "one row for the anchor and one for each drafted token"
    plain = sampling.plain
    if sampling.greedy and plain:
        return _greedy(logits, None)
    rows = logits if plain else logits.to(torch.float64, copy=True)
    raw_peak = None
    if not plain:
        raw_peak = rows.max(-1).values
        _bias_rows(rows, sampling.logit_bias)
        if sampling.penalised:
            penalise_rows(rows, sampling, history, draft)
    if sampling.greedy:
        return _greedy(rows, raw_peak)
    peak = rows.max(-1).values
    faults = _faults(*_to_host(peak, peak if raw_peak is None else raw_peak))
    if any(faults):
        usable = torch.tensor([fault is None for fault in faults], device=rows.device)
        rows = torch.where(usable[:, None], rows, 0)
    if 0 < sampling.top_k < V:
        found = _by_count(rows, sampling)
    elif sampling.top_p < 1 or sampling.min_p > 0:
        found = _by_mass(rows, sampling)
    else:
        found = _whole(rows, sampling)
    return [
        support if fault is None else Support.unusable(fault)
        for support, fault in zip(found, faults, strict=True)
    ]


def candidate_support(
    ids: Tensor, scores: Tensor, sampling: Sampling, history: Sequence[int]
) -> Support:
    """A drafter's distribution over its K candidates, after the same filters.

    Args:
        ids: [K] distinct token ids in any order.
        scores: [K] their logits.
        sampling: the filters; top-p and min-p see only the candidates' probabilities.
        history: committed tokens, then the draft so far.

    Candidates that are all banned keep their scores without the bans: the drafter has to name one,
    and the target, whose bans do hold, rejects it.
    """
    values, tokens = scores.double().cpu().numpy(), ids.long().cpu().numpy()
    peak = float(values.max())
    fault = row_fault(0, peak, peak, "the drafter's scores")
    if fault is not None:
        return Support.unusable(fault)
    if sampling.logit_bias:
        biased = values + [sampling.logit_bias.get(token, 0.0) for token in tokens.tolist()]
        values = biased if biased.max() > -math.inf else values
    if sampling.penalised:
        seen = next(iter(recent_counts(history, (), sampling.repeat_last_n)))
        counts = np.array([seen.get(token, 0) for token in tokens.tolist()], dtype=np.float64)
        values = penalise(torch.from_numpy(values), torch.from_numpy(counts), sampling).numpy()
    if sampling.greedy:
        return Support.certain(int(tokens[values == values.max()].min()))
    order = np.lexsort((tokens, -values))[: sampling.top_k or len(tokens)]
    return _cut(softmax(values[order] / sampling.temperature), tokens[order], sampling)


def check_bias(logit_bias: Mapping[int, float], vocabulary: int) -> None:
    """Refuses biases of tokens that there are not."""
    for token in logit_bias:
        if token >= vocabulary:
            raise PromptError(
                f"logit_bias names token {token}, the vocabulary has {vocabulary}",
                f"ids are 0 to {vocabulary - 1}",
            )


def row_fault(
    number: int, peak: float, raw_peak: float, what: str = "the logits"
) -> UserError | None:
    """What is wrong with a row, told by its largest value (a NaN anywhere is the largest).

    Args:
        number: of the row.
        peak: after bias and penalties.
        raw_peak: before them.
        what: it is a row of.
    """
    if not abs(raw_peak) < _LARGEST:
        name = "NaN" if math.isnan(raw_peak) else "Inf" if raw_peak > 0 else "no finite value"
        return NumericalError(
            f"row {number} of {what} has {name}", "try another dtype or checkpoint"
        )
    if peak == -math.inf:
        return PromptError("logit_bias bans every possible token", "ban fewer tokens")
    if not abs(peak) < _LARGEST:
        return NumericalError(
            f"row {number} of {what} overflows under the penalties", "use milder penalties"
        )
    return None


def _bias_rows(rows: Tensor, logit_bias: Mapping[int, float]) -> None:
    """Add the biases in place; a ban holds whatever was there."""
    if not logit_bias:
        return
    check_bias(logit_bias, rows.shape[1])
    ids = torch.tensor(list(logit_bias), device=rows.device)
    values = list(logit_bias.values())
    rows[:, ids] += torch.tensor(values, dtype=torch.float64, device=rows.device)


def _faults(peaks: Floats, raw_peaks: Floats) -> list[UserError | None]:
    """What is wrong with each row."""
    pairs = zip(peaks.tolist(), raw_peaks.tolist(), strict=True)
    return [row_fault(n, peak, raw_peak) for n, (peak, raw_peak) in enumerate(pairs)]


def _to_host(*columns: Tensor) -> Floats:
    """Tensors of one shape, stacked as float64 on the CPU by one copy; ids are exact in float64."""
    return np.asarray(torch.stack([column.double() for column in columns]).cpu().numpy())


def _greedy(rows: Tensor, raw_peak: Tensor | None) -> list[Support]:
    peaks, tokens = _best(rows)
    raw_peaks = peaks if raw_peak is None else raw_peak.double().cpu().numpy()
    return [
        Support(one, _CERTAIN) if fault is None else Support.unusable(fault)
        for one, fault in zip(tokens[:, None].unbind(), _faults(peaks, raw_peaks), strict=True)
    ]


def _best(rows: Tensor) -> tuple[Floats, Tensor]:
    """Each row's largest value, and where it stands, the lowest id of equals; NaN is the largest.

    numpy looks for the place ten times as fast as torch does on a CPU.
    """
    if rows.device.type == "cpu" and rows.dtype in _NUMPY_TYPES:
        values = rows.detach().numpy()
        ids = values.argmax(-1)
        peaks = values[np.arange(len(ids)), ids].astype(np.float64)
        return peaks, torch.from_numpy(ids)
    best = rows.max(-1)
    peaks, places = _to_host(best.values, best.indices)
    return peaks, torch.from_numpy(places.astype(np.int64))


def _scaled(logits: Tensor, sampling: Sampling) -> Tensor:
    return logits.to(torch.float64, copy=True).div_(sampling.temperature)


def _whole(rows: Tensor, sampling: Sampling) -> list[Support]:
    """No filter: all tokens with any probability."""
    p = _scaled(rows, sampling).softmax(-1).cpu()  # reduces each row alone, unlike a sum
    every = torch.arange(p.shape[1])
    if bool((p > 0).all()):
        return [Support(every, row) for row in p]
    return [Support(every[row > 0], row[row > 0]) for row in p]


def _by_count(rows: Tensor, sampling: Sampling) -> list[Support]:
    """Top-k, then the other filters on what it leaves."""
    values, ids = ranked(rows, sampling.top_k)
    logits, host_ids = _to_host(_scaled(values, sampling), ids)
    pairs = zip(logits, host_ids.astype(np.int64), strict=True)
    return [_cut(softmax(row), row_ids, sampling) for row, row_ids in pairs]


def _by_mass(rows: Tensor, sampling: Sampling) -> list[Support]:
    """Top-p and min-p of the whole vocabulary, from as long a head of the ranking as they need."""
    V = rows.shape[1]
    p = _scaled(rows, sampling).softmax(-1)
    width = min(_FIRST_WIDTH, V)
    while True:
        _, ids = ranked(rows, width)
        head, host_ids = _to_host(p.gather(-1, ids), ids)
        # A cut that keeps all it was shown has not seen its end.
        if width == V or max(kept(row, sampling) for row in head) < width:
            break
        width = min(8 * width, V)
    pairs = zip(head, host_ids.astype(np.int64), strict=True)
    return [_cut(row, row_ids, sampling) for row, row_ids in pairs]


def _cut(p: Floats, ids: Ids, sampling: Sampling) -> Support:
    """The support that top-p and min-p leave of a ranking that may be longer in ids."""
    n = kept(p, sampling)
    order = np.argsort(ids[:n])
    return Support(torch.from_numpy(ids[:n][order]), torch.from_numpy(p[:n][order] / p[:n].sum()))
