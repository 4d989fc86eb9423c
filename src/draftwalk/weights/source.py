"""What a model builder takes its tensors from: every one present, of the right shape, and used."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace

from draftwalk.errors import CheckpointError
from draftwalk.weights.tensor import RawTensor

# Buffers that old exporters saved beside the weights; every engine computes them itself.
_RECOMPUTED = re.compile(r"(.*\.)?rotary_emb\.inv_freq")
_SHOWN = 4


class TensorSource:
    """Hands out tensors by canonical name and remembers what was taken.

    Args:
        tensors: by canonical name.
        where: the checkpoint, for messages.
    """

    def __init__(self, tensors: Mapping[str, RawTensor], where: str) -> None:
        self._tensors = tensors
        self._where = where
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, shape: tuple[int, ...]) -> RawTensor:
        """The tensor `name`, which must have this shape (leading ones aside, which GGUF drops).

        Raises:
            CheckpointError: it is missing, or of another shape.
        """
        if name not in self._tensors:
            close = difflib.get_close_matches(name, self._tensors, n=1, cutoff=0.8)
            hint = f"it has {close[0]}" if close else "the file is incomplete or of another kind"
            raise CheckpointError(f"{self._where}: tensor {name} is missing", hint)
        self._taken.add(name)
        raw = self._tensors[name]
        if _without_leading_ones(raw.shape) != _without_leading_ones(shape):
            raise CheckpointError(
                f"{self._where}: tensor {name} has shape {list(raw.shape)}, expected {list(shape)}"
            )
        return replace(raw, shape=shape)

    def take_optional(self, name: str, shape: tuple[int, ...]) -> RawTensor | None:
        """The tensor `name` if there is one; its shape is checked all the same."""
        return self.take(name, shape) if name in self._tensors else None

    def drop(self, name: str) -> None:
        """Leave out a tensor that does not matter, such as the stored head of a tied model."""
        self._taken.add(name)

    def finish(self) -> None:
        """End of the model: nothing may be left over.

        Raises:
            CheckpointError: tensors that nobody took; ignoring them would become wrong text.
        """
        left = [
            name for name in self._tensors if name not in self._taken and not is_recomputed(name)
        ]
        if left:
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            raise CheckpointError(
                f"{self._where}: {', '.join(left[:_SHOWN])}{more} not used by this architecture",
                "the checkpoint has parts that are not implemented",
            )


def is_recomputed(name: str) -> bool:
    """Whether a tensor is a buffer that every engine computes itself."""
    return _RECOMPUTED.fullmatch(name) is not None


def _without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    for index, size in enumerate(shape):
        if size != 1:
            return shape[index:]
    return ()
