"""Where a cycle of ours goes: by the loop's clock, and a draft by shares of its kernels.

A clock between kernels disturbs what it measures, so it runs in answers of its own and gives shares
of a draft; the time that is shared out is that of the answers that count. The selector gathers its
tables' rows inside the kernel that multiplies them: what gathering takes is measured alone, and
`pairwise` is what is left. `host` is all the time that nothing else accounts for.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cpu_parts.timed import TimedPass, timed_passes
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.dflash2 import DFlash2
from draftwalk.engine import Engine
from draftwalk.ops import Matrix
from draftwalk.ops.native import NativeOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.verify.native import Lattice, chooser_for, native_walk
from draftwalk.verify.noise import Noise
from speculation_parts.answer import Answer, Question
from speculation_parts.ours import sampling_of

PASS_PARTS = ("conv", "backbone", "head", "top_k", "pairwise")
PARTS = (
    *("conv", "backbone", "head", "top_k", "gather", "pairwise", "walk"),
    *("verify", "sample", "commit", "observe", "host"),
)
_REPEATS = 50
Seconds = dict[str, float]
Milliseconds = dict[str, float]
Shares = dict[str, float]


def parts_of(labels: Sequence[str]) -> list[str]:
    """The part of the draft that each call of its pass belongs to.

    Products are told apart by what follows: the head's logits go to `top_k`, a gate's to the
    selector, coefficients to the convolution behind a norm. (The convolution behind a sublayer
    follows a product as well, the sublayer's own.)
    """
    calls = [(n, label) for n, label in enumerate(labels) if label != "quantise"]
    parts = ["backbone"] * len(labels)
    padded = ["", *(label for _, label in calls), ""]
    for (n, label), before, after in zip(calls, padded, padded[2:], strict=False):
        parts[n] = _part(label, before, after)
    return parts


def _part(label: str, before: str, after: str) -> str:
    match label:
        case "convolve":
            return "conv"
        case "top_k" | "argmax":
            return "top_k"
        case "gather" if before == "top_k":
            return "top_k"  # numbers of a smaller vocabulary become tokens
        case "selector":
            return "pairwise"
        case "linear" if after in ("top_k", "argmax"):
            return "head"
        case "linear" if after == "selector":
            return "pairwise"
        case "linear" if after == "convolve" and before == "norm":
            return "conv"
    return "backbone"


def draft_shares(engine: Engine, questions: Sequence[Question]) -> Shares:
    """Shares of a draft by part, medians; empty where the back end has no clocks.

    Args:
        engine: with a DFlash or DFlash2 drafter.
        questions: answered once more, at the whole window.
    """
    drafter, ops = engine.drafter, engine.target.ops
    if not (isinstance(ops, NativeOperations) and isinstance(drafter, BlockDrafter)):
        return {}
    found: dict[str, list[float]] = {}
    drafts: list[float] = []
    for question in questions:
        for one, seconds in _clocked(engine, drafter, question):
            drafts.append(seconds)
            for part, taken in _parts_of_pass(one).items():
                found.setdefault(part, []).append(taken / seconds)
    if not drafts:
        return {}
    shares = {part: statistics.median(values) for part, values in found.items()}
    if isinstance(drafter, DFlash2):
        samplings = [sampling_of(question) for question in questions]
        shares |= _of_selector(ops, drafter, samplings, shares["pairwise"], drafts)
    return shares


def _clocked(
    engine: Engine, drafter: BlockDrafter, question: Question
) -> Iterator[tuple[TimedPass, float]]:
    """The drafter's passes of an answer, each with what its draft took without the clock."""
    limits = Limits(max_tokens=question.tokens)
    with timed_passes(engine.target.ops) as passes:
        for step in engine.stream(question.prompt, sampling_of(question), limits, Window()):
            for one in passes:
                if one.key == (drafter, "draft"):
                    yield one, step.times.draft - one.clocked_s
            passes.clear()


def _parts_of_pass(one: TimedPass) -> Seconds:
    """Seconds by part that sum to what the pass took without a clock, or a little less."""
    labels = [label for label, _ in one.calls]
    whole = sum(seconds for _, seconds in one.calls)
    disturbed = max(1.0, whole / one.seconds)
    sums = dict.fromkeys(PASS_PARTS, 0.0)
    for part, (_, seconds) in zip(parts_of(labels), one.calls, strict=True):
        sums[part] += seconds / disturbed
    return sums


def _of_selector(
    ops: NativeOperations,
    drafter: DFlash2,
    samplings: Sequence[Sampling],
    pairwise: float,
    drafts: Sequence[float],
) -> Shares:
    """Shares of what a selector does in and behind the pass."""
    selector = drafter.config.selector
    assert selector is not None, "a DFlash2 drafter has a selector"
    rows, width = drafter.block - 1, selector.candidates
    draft = statistics.median(drafts)
    gather = min(_gather(ops, drafter, rows, width) / draft, pairwise)
    walk = statistics.mean(_walk(rows, width, one) for one in samplings) / draft
    return {"gather": gather, "pairwise": pairwise - gather, "walk": walk}


def cycle_of(answers: Sequence[Answer], shares: Shares) -> Milliseconds:
    """A mean cycle of an arm of ours by `PARTS`, which sum to the whole.

    Args:
        answers: of the arm.
        shares: of a draft by part, from `draft_shares`.
    """
    steps = sum(one.steps for one in answers)
    if not steps:
        return {}

    def mean(part: str) -> float:
        return 1e3 * sum(one.parts_s[part] for one in answers) / steps

    parts = {part: mean("draft") * share for part, share in shares.items()}
    parts |= {"verify": mean("verify"), "sample": mean("choose")}
    parts |= {"commit": mean("commit"), "observe": mean("observe")}
    whole = 1e3 * sum(one.decode_s for one in answers) / steps
    parts["host"] = whole - sum(parts.values())
    return {**parts, "cycle": whole}


def _gather(ops: NativeOperations, drafter: DFlash2, rows: int, candidates: int) -> float:
    """Seconds to unpack the rows that the selector takes from its tables."""
    counts = (candidates * (rows - 1) + 1, candidates * rows)  # one predecessor in the first row
    total = 0.0
    for number, (table, count) in enumerate(zip(drafter.tables, counts, strict=True)):
        tokens = torch.randint(table.shape[0], (count,)).tolist()
        laid = Rows.lay_out([Rowset(0, tokens, 0, "none")], ops.device)

        def body(laid: Rows, _: tuple[Tensor, ...], table: Matrix = table) -> tuple[Tensor, ...]:
            return (ops.embed(table, laid, 1.0),)

        key = (drafter, f"table {number} alone")
        times = [ops.times(key, laid, (), body) for _ in range(_REPEATS)]
        total += statistics.median(sum(seconds for _, seconds in calls) for calls in times)
    return total


def _walk(rows: int, candidates: int, sampling: Sampling) -> float:
    """Seconds of a walk through random scores."""
    ids = torch.arange(rows * candidates).view(rows, candidates)
    lattice = Lattice(ids, torch.randn(rows, candidates, candidates))
    chooser = chooser_for(lattice.scores)
    assert chooser is not None, "the native back end has one"
    noise, history, times = Noise(1), list(range(256)), []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        native_walk(chooser, lattice, range(rows), sampling, noise, history)
        times.append(time.perf_counter() - start)
    return statistics.median(times)
