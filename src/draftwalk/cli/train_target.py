"""The target that a drafter is trained for, and other models by their names."""

from __future__ import annotations

from pathlib import Path

import torch

from draftwalk.cli.options import StoreOptions
from draftwalk.cli.progress import downloading
from draftwalk.cli.train_options import MachineOptions
from draftwalk.engine import Engine, Placement, load
from draftwalk.fetch import Store, resolve

_CONTEXT = 4096


def open_target(model: str, machine: MachineOptions, where: StoreOptions) -> Engine:
    """The target, on the CPU's kernels where it can be: they are what serves it."""
    if machine.threads is not None:
        torch.set_num_threads(machine.threads)
    place = Placement(context=_CONTEXT, threads=machine.threads)
    return load(find_model(model, where), placement=place, plain=True)


def find_model(model: str, where: StoreOptions) -> Path:
    """A model's file or folder, fetched if it has to be."""
    with downloading() as progress:
        return resolve(model, Store(where.cache_dir, where.offline, progress))
