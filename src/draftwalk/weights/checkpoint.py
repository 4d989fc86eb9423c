"""What every kind of checkpoint offers: configuration and tensors under Hugging Face's names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

from draftwalk.weights.tensor import RawTensor


class Checkpoint(Protocol):
    """An opened checkpoint. Nothing of it is unpacked yet."""

    @property
    def path(self) -> Path:
        """File or folder."""

    @property
    def container(self) -> Literal["gguf", "safetensors"]:
        """Where it came from; GGUF files have zero-centred norm weights already shifted by 1."""

    @property
    def architecture(self) -> str:
        """Hugging Face's class: `LlamaForCausalLM`, `DFlash2DraftModel`."""

    @property
    def config(self) -> Mapping[str, object]:
        """Keys as in config.json."""

    @property
    def tensors(self) -> Mapping[str, RawTensor]:
        """By canonical name."""

    @property
    def generation(self) -> Mapping[str, object]:
        """Keys as in generation_config.json; `eos_token_id` always a list."""
