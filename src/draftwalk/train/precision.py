"""How exactly a drafter computes while learning.

Processors with units for bfloat16 (AMX, AVX-512 BF16, GPUs' tensor cores) multiply in it several
times as fast and still add in float32. "medium" has float32 matrices multiplied that way, and
changes nothing where there are no such units. "bfloat16" keeps the results of the network's
products in it as well (torch's autocast), which spares conversions, and is slow without such units.
Parameters, the residual stream, norms, what the optimiser keeps, logits and losses are stored in
float32 in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from draftwalk.errors import UserError

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


def products_type(precision: Precision, device: torch.device) -> torch.dtype:
    """What the results of the network's products are kept in.

    Raises:
        UserError: the GPU has no bfloat16.
    """
    if precision != "bfloat16":
        return torch.float32
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise UserError("this GPU has no bfloat16", "take --precision medium")
    return torch.bfloat16
