"""Several processes that train one drafter, as torchrun starts them; by default there is one.

Each takes its share of an update's answers, and gradients are added. What is drawn does not depend
on the process, so the result is that of one process, up to the order of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, distributed

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Processes:
    """One process among its fellows.

    Attributes:
        rank: its number.
        count: how many there are.
    """

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether it is the one that writes files and talks."""
        return self.rank == 0

    def share(self, items: Sequence[Item], cost: Callable[[Item], float]) -> list[Item]:
        """What this process works on, so that all of them end at about the same time.

        The dearest items go first, each to the process that has least to do so far.
        """
        loads, own = [0.0] * self.count, []
        for item in sorted(items, key=cost, reverse=True):
            idlest = loads.index(min(loads))
            loads[idlest] += cost(item)
            if idlest == self.rank:
                own.append(item)
        return own

    def add(self, values: Sequence[Tensor]) -> None:
        """Adds tensors over all processes, in place."""
        if self.count == 1 or not values:
            return
        flat = torch.cat([value.reshape(-1) for value in values])
        distributed.all_reduce(flat)
        parts = torch.split(flat, [value.numel() for value in values])
        for value, part in zip(values, parts, strict=True):
            value.copy_(part.view(value.shape))


def own_device(device: torch.device) -> torch.device:
    """The GPU of this process among those that torchrun has started, unless one was named."""
    named = device.type != "cuda" or device.index is not None
    if named or not distributed.is_torchelastic_launched():
        return device
    return torch.device("cuda", distributed.get_node_local_rank())


@contextmanager
def started_by_torchrun(device: torch.device) -> Iterator[Processes]:
    """Joins the processes that torchrun has started; without it there is only this one."""
    if not distributed.is_torchelastic_launched():
        yield Processes()
        return
    # Counts and clocks are added on the host.
    distributed.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size())
        # One that fails while it ends has all others ended, the one that still writes among them.
        distributed.barrier()
    finally:
        distributed.destroy_process_group()
