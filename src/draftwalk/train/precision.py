"""How exactly float32 matrices are multiplied while learning.

Processors with units for bfloat16 (AMX, AVX-512 BF16, GPUs' tensor cores) multiply in it several
times as fast and still add in float32. "medium" has float32 matrices multiplied that way, and
changes nothing where there are no such units. All that is stored is float32 in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["highest", "high", "medium"]  # as torch.set_float32_matmul_precision has them


@contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    """Torch has one setting for the whole process, which is put back at the end."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
