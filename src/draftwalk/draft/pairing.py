"""Which drafter belongs to a target: told by the embedding it was trained on."""

from __future__ import annotations

import warnings
from importlib.resources import files
from pathlib import Path

from draftwalk.draft.dialect import FINGERPRINT_KEY
from draftwalk.draft.export import embedding_fingerprint
from draftwalk.weights import Checkpoint, GgufCheckpoint, GgufFile

EMBEDDING = "model.embed_tokens.weight"


def packaged_drafters() -> list[Path]:
    """Drafter files that come with this package."""
    folder = Path(str(files("draftwalk") / "drafters"))
    return sorted(folder.glob("*.gguf"))


def find_packaged_drafter(target: Checkpoint) -> Path | None:
    """The packaged drafter that was trained on exactly this target's embedding."""
    wanted = embedding_fingerprint(target.tensors[EMBEDDING])
    for path in packaged_drafters():
        if GgufFile(path).metadata.get(FINGERPRINT_KEY) == wanted:
            return path
    return None


def check_fingerprint(drafter: Checkpoint, target: Checkpoint) -> None:
    """Warns when a factored selector meets another embedding than it was trained on.

    That is legal (the target's text stays what it is) and costs acceptance: little with another
    quantisation of the same model, nearly all with another model.
    """
    if not isinstance(drafter, GgufCheckpoint) or FINGERPRINT_KEY not in drafter.metadata:
        return
    if drafter.metadata[FINGERPRINT_KEY] != embedding_fingerprint(target.tensors[EMBEDDING]):
        warnings.warn(
            f"{drafter.path.name} was trained on another embedding than {target.path.name} has; "
            "expect less acceptance",
            stacklevel=3,
        )
