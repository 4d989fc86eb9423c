"""Open a checkpoint of either kind, told by what is there and never by a name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from draftwalk import registry
from draftwalk.errors import CheckpointError
from draftwalk.weights.dialect import Dialect
from draftwalk.weights.gguf import GgufFile
from draftwalk.weights.gguf_checkpoint import GgufCheckpoint
from draftwalk.weights.safetensors_folder import CONFIG, SafetensorsFolder


def open_checkpoint(
    path: Path, dialects: Mapping[str, Dialect]
) -> GgufCheckpoint | SafetensorsFolder:
    """A GGUF file, or a folder with config.json and safetensors.

    Args:
        path: the file or folder.
        dialects: by `general.architecture`, from the architectures' own files.

    Raises:
        CheckpointError: it is neither, is damaged, or needs something that is not implemented.
    """
    if path.is_dir():
        if not (path / CONFIG).is_file():
            inside = sorted(path.glob("*.gguf"))
            hint = f"give the file: {inside[0]}" if inside else "models need one beside the weights"
            raise CheckpointError(f"folder {path} has no {CONFIG}", hint)
        return SafetensorsFolder(path)
    if not path.exists():
        raise CheckpointError(f"there is no file or folder {path}")
    if not path.is_file():  # a pipe would be waited for
        raise CheckpointError(f"{path} is no regular file")
    file = GgufFile(path)
    what = f"{file.name}: GGUF architecture"
    dialect = registry.pick(dialects, file.architecture, what, CheckpointError)
    return GgufCheckpoint(file, dialect)
