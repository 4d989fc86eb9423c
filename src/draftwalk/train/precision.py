"""How exactly a drafter computes while learning.

Processors with units for bfloat16 (AMX, AVX-512 BF16, GPUs' tensor cores) multiply in it several
times as fast and still add in float32. "medium" has float32 matrices multiplied that way, and
changes nothing where there are no such units. "bfloat16" has the network's rows in it as well,
which also moves half the memory, and is slow without them. Parameters, what the optimiser keeps,
the head's logits and losses are float32 in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

# The first three as torch.set_float32_matmul_precision has them.
Precision = Literal["highest", "high", "medium", "bfloat16"]


@contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    """Torch has one setting for the whole process, which is put back at the end."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if precision == "bfloat16" else precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def rows_type(precision: Precision) -> torch.dtype:
    """The type of the network's rows."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32
