"""How fast draftwalk's matrix products are alone, by block format.

The matrix is larger than any inner cache and smaller than most outer ones, so that bandwidth does
not bound it at 8 rows. What is timed is one call of `linear`, its quantisation of the activations
and its way through Python included.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from cpu_parts.counts import kind_of
from cpu_parts.machine import Machine
from cpu_parts.measure import median
from cpu_parts.random_weights import RANDOM_FORMATS, random_matrix
from draftwalk.ops import Linear, Operations

ROWS = 8
_SHAPE = (8192, 2048)
_REPETITIONS = 15


def products(
    ops: Operations,
    machine: Machine,
    formats: Sequence[str] = RANDOM_FORMATS,
    shape: tuple[int, int] = _SHAPE,
) -> dict[str, dict[str, float | None]]:
    """Rates by format, 1e9 products a second, and the share of the machine's."""
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((ROWS, shape[1]), np.float32))
    found: dict[str, dict[str, float | None]] = {}
    for name in formats:
        raw = random_matrix(name, shape, name, np.random.default_rng(2))
        linear = Linear(ops.matrix(raw))
        taken = []
        for _ in range(_REPETITIONS + 2):
            start = time.perf_counter()
            ops.linear(x, (linear,))
            taken.append(time.perf_counter() - start)
        rate = ROWS * raw.size / median(taken[2:]) / 1e9
        most = machine.dot_gmac_s.get(kind_of(raw))
        found[name] = {"gmac_s": round(rate, 2), "share": None if most is None else rate / most}
    return found
