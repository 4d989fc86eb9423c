"""A drafter as it stands, as a checkpoint that was never a file: to be measured or written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torch import Tensor

from draftwalk.train.shape import float_tensor
from draftwalk.weights.tensor import RawTensor


@dataclass(frozen=True, slots=True)
class Snapshot:
    """See `draftwalk.weights.Checkpoint`."""

    path: Path
    config: Mapping[str, object]
    tensors: Mapping[str, RawTensor]
    container: Literal["gguf", "safetensors"] = "safetensors"
    generation: Mapping[str, object] = field(default_factory=dict)

    @property
    def architecture(self) -> str:
        """Hugging Face's class."""
        named = self.config["architectures"]
        assert isinstance(named, list)
        return str(named[0])


def snapshot(
    config: Mapping[str, object], parameters: Mapping[str, Tensor], path: Path
) -> Snapshot:
    """Copies of the parameters as they are now.

    Args:
        config: the drafter's config.json.
        parameters: by canonical name.
        path: what messages call it.
    """
    copies = {name: value.detach().clone() for name, value in parameters.items()}
    return Snapshot(path, config, {name: float_tensor(name, v) for name, v in copies.items()})
