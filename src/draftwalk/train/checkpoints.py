"""Where a run stands, in one file that is written beside its name and renamed.

Tensors are a safetensors file's; everything else is JSON in its metadata. No pickle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from draftwalk.errors import UserError
from draftwalk.weights.whole_file import whole_file

_KEY = "draftwalk"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands.

    Attributes:
        progress: numbers and lists: steps, anchors, the order of data, what must not change.
        parameters: by canonical name, float32.
        optimiser: see `Optimisers.state`.
        extra: other tensors of the run.
    """

    progress: Mapping[str, object]
    parameters: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    extra: Mapping[str, Tensor]


def write_standing(path: Path, standing: Standing) -> None:
    """Writes a checkpoint; the one before it stays until this one is whole."""
    tensors: dict[str, Tensor] = {}
    for kind, group in (
        ("parameter", standing.parameters),
        ("optimiser", standing.optimiser),
        ("extra", standing.extra),
    ):
        tensors |= {f"{kind}:{name}": value.detach().cpu() for name, value in group.items()}
    data = save(tensors, metadata={_KEY: json.dumps(standing.progress)})
    with whole_file(path) as file:
        file.write(data)


def read_standing(path: Path) -> Standing:
    """Reads a checkpoint.

    Raises:
        UserError: the file is damaged or of another kind.
    """
    groups: dict[str, dict[str, Tensor]] = {"parameter": {}, "optimiser": {}, "extra": {}}
    try:
        with safe_open(path, "pt") as file:
            progress = json.loads(file.metadata()[_KEY])
            for key in file.keys():  # noqa: SIM118 (it is no mapping)
                kind, name = key.split(":", 1)
                groups[kind][name] = file.get_tensor(key)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is no checkpoint of a run: {error}") from error
    return Standing(progress, groups["parameter"], groups["optimiser"], groups["extra"])
