"""A drafter to convert, and the plainest way to do it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from draftwalk.convert import Options
from draftwalk.models import open_model
from draftwalk.weights import GgufCheckpoint
from support.models import MadeCheckpoint, drafter_checkpoint

PLAIN = Options(tokenizer=False)


def drafter(width: int = 64, **changes: object) -> MadeCheckpoint:
    made = drafter_checkpoint(96, width, (1, 3), selector=True, causal=False, mlp=64)
    config = {**made.config, "architectures": ["DFlash2DraftModel"], "num_target_layers": 9}
    return replace(made, config={**config, **changes})


def gguf(path: Path) -> GgufCheckpoint:
    opened = open_model(path)
    assert isinstance(opened, GgufCheckpoint)
    return opened
