"""Load time and memory of an engine, in fresh processes that do nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpu_parts.measure import Plan
from cpu_parts.remote import RemoteArm

_MB = 1e6


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of one process; megabytes, without what imports took and without K/V.

    Attributes:
        load_s: loading, with files in the page cache.
        peak_mb: the most there was, loading and passes included.
        loaded_mb: after loading.
    """

    load_s: float
    peak_mb: float
    loaded_mb: float


def footprint(
    start: Callable[[], RemoteArm],
    path: Path,
    text: Sequence[int],
    plan: Plan,
    threads: int,
    kv_bytes: int,
) -> Footprint:
    """Loads a model, reads the context and runs a pass of every width.

    Args:
        start: a fresh process of the engine.
        path: the model.
        text: token ids.
        plan: sizes.
        threads: of the engine.
        kv_bytes: K/V of the prepared context, for an engine that does not tell.
    """
    with start() as arm:
        before = arm.memory()["rss"]
        load_s = arm.load(path, threads, prepared(plan))
        loaded = arm.memory()["rss"] - _or(arm.kv_bytes(), kv_bytes)
        arm.read(text[: plan.context])
        for rows in plan.widths:
            arm.passes(text[plan.context : plan.context + rows], 1)
        peak = arm.memory()["peak"] - _or(arm.kv_bytes(), kv_bytes)
    return Footprint(load_s, (peak - before) / _MB, (loaded - before) / _MB)


def _or(told: int | None, otherwise: int) -> int:
    return otherwise if told is None else told


def prepared(plan: Plan) -> int:
    """Places of the context that engines prepare: enough for all, a multiple of 256."""
    return -(-(plan.needed + plan.tokens + 8) // 256) * 256
