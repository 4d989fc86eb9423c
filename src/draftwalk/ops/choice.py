"""The one place that chooses a back end."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Literal

import torch

from draftwalk.errors import UserError
from draftwalk.ops import Operations
from draftwalk.ops.cores import available_cores
from draftwalk.ops.memory import KVType, only_f16
from draftwalk.ops.torch import TorchOperations

BackEnd = Literal["auto", "native", "torch"]


@cache
def extension_fault() -> str | None:
    """Why there is no native back end here, or `None` where there is one."""
    try:
        import_module("draftwalk._native")
    except ImportError as error:
        return str(error)
    return None


def chosen(
    back_end: BackEnd, device: torch.device, dtype: torch.dtype
) -> Literal["native", "torch"]:
    """The back end for a device and a type: the native one wherever it can be.

    Raises:
        UserError: the native one is asked for and cannot be.
    """
    if back_end == "torch":
        return "torch"
    fault = extension_fault()
    if device.type != "cpu" or dtype != torch.float32:
        name = str(dtype).removeprefix("torch.")
        fault = f"it computes in float32 on the cpu, not in {name} on {device}"
    if fault is None:
        return "native"
    if back_end == "native":
        raise UserError(
            f"the native back end cannot be used: {fault}", "--backend auto takes what there is"
        )
    return "torch"


def instruction_sets() -> tuple[str, ...]:
    """What the native back end can run on here, the best first; empty where there is none."""
    if extension_fault() is not None:
        return ()
    from draftwalk import _native

    return tuple(_native.instruction_sets())


def open_operations(
    device: torch.device,
    dtype: torch.dtype,
    back_end: BackEnd = "auto",
    threads: int | None = None,
    kv: KVType = "f16",
) -> Operations:
    """A back end.

    Args:
        device: where it computes.
        dtype: type of activations.
        back_end: which one; "auto" is the native one wherever it can be.
        threads: of the native back end; as many as there are physical cores by default.
        kv: how the native back end stores K/V.

    Raises:
        UserError: it cannot be opened.
    """
    if chosen(back_end, device, dtype) == "torch":
        only_f16(kv)
        return TorchOperations(device, dtype)
    from draftwalk.ops.native import NativeOperations

    wanted = threads or available_cores()
    try:
        return NativeOperations(wanted, kv=kv)
    except RuntimeError as error:
        raise UserError(f"{wanted} threads cannot be started: {error}", "take fewer") from error
