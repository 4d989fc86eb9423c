"""Opening checkpoints of any kind this package knows: targets' and drafters' dialects together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from draftwalk import registry
from draftwalk.draft import dialect, foreign
from draftwalk.draft.speculators import drafter_folder
from draftwalk.target.load import known_architectures
from draftwalk.weights import GgufCheckpoint, SafetensorsFolder, open_checkpoint
from draftwalk.weights.dialect import Dialect


@cache
def dialects() -> Mapping[str, Dialect]:
    """Every GGUF architecture that can be read."""
    targets = {id(one): one.dialect for one in known_architectures().values()}
    found = [*targets.values(), dialect.DIALECT, foreign.DIALECT]
    return MappingProxyType(registry.index(found, lambda dialect: (dialect.name,)))


def open_model(path: Path) -> GgufCheckpoint | SafetensorsFolder:
    """Opens a target's or a drafter's checkpoint; drafters of any layout in the same terms."""
    opened = open_checkpoint(path, dialects())
    return drafter_folder(opened) if isinstance(opened, SafetensorsFolder) else opened
