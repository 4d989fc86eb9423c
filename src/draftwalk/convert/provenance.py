"""What a way back needs: the source's configuration as text, and how it stored its tensors.

GGUF keeps both as strings, `draftwalk.source.config` and `draftwalk.source.dtypes` (JSON: name to
format); a folder keeps them in the table `draftwalk` of its config.json. Other engines pass them
over. They are untrusted like the rest of a file: a configuration that says something else than the
file it is in is refused where it would be used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from draftwalk.draft.config import OWN_TABLE
from draftwalk.draft.speculators import KIND_KEY
from draftwalk.errors import CheckpointError, in_words
from draftwalk.weights import Checkpoint, Fields, GgufCheckpoint, RawTensor, SafetensorsFolder
from draftwalk.weights.fields import MAPPING, TEXT
from draftwalk.weights.json_file import parse_json_object
from draftwalk.weights.safetensors_folder import CONFIG
from draftwalk.weights.safetensors_writer import WRITABLE

CONFIG_KEY = "draftwalk.source.config"
DTYPES_KEY = "draftwalk.source.dtypes"
TABLE = "source"

Layout = Literal["hf", "speculators"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Of a folder, before it was converted.

    Attributes:
        text: config.json.
        config: the same, read.
        dtypes: format of every tensor by its name there.
        itself: whether the checkpoint at hand is that folder.
    """

    text: str
    config: Mapping[str, object]
    dtypes: Mapping[str, str]
    itself: bool

    @property
    def layout(self) -> Layout:
        """Which kind of folder it was."""
        return "speculators" if self.config.get(KIND_KEY) is not None else "hf"

    def keys(self) -> dict[str, str]:
        """As GGUF keeps it."""
        return {CONFIG_KEY: self.text, DTYPES_KEY: json.dumps(self.dtypes, separators=(",", ":"))}

    def table(self) -> dict[str, object]:
        """As a folder keeps it."""
        return {TABLE: {"config": self.text, "dtypes": dict(self.dtypes)}}


def provenance(checkpoint: Checkpoint) -> Provenance | None:
    """What a checkpoint tells of its source; a folder that tells nothing is the source itself.

    Raises:
        CheckpointError: what it tells is not of the form it should have.
    """
    where = checkpoint.path.name
    if isinstance(checkpoint, GgufCheckpoint):
        fields = Fields(checkpoint.metadata, where)
        told, dtypes = (fields.get(key, TEXT, None) for key in (CONFIG_KEY, DTYPES_KEY))
        if told is None or dtypes is None:
            return None
        names = parse_json_object(dtypes.encode(), f"{where}: key {DTYPES_KEY}")
        return _checked(told, names, where)
    text = _config_text(checkpoint)
    config = parse_json_object(text.encode(), f"{where}/{CONFIG}")
    own = Fields(config, f"{where}/{CONFIG}").table(OWN_TABLE)
    if own.get(TABLE, MAPPING, None) is None:
        formats = {name: raw.format.NAME for name, raw in _as_stored(checkpoint).items()}
        return Provenance(text, config, formats, itself=True)
    source = own.table(TABLE)
    return _checked(source.need("config", TEXT), source.table("dtypes").values, where)


def _config_text(checkpoint: Checkpoint) -> str:
    """config.json as it is written, or what there is of it."""
    if not isinstance(checkpoint, SafetensorsFolder):  # made in memory
        return json.dumps(checkpoint.config)
    file = checkpoint.path / CONFIG
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read: {in_words(error)}") from None


def _as_stored(checkpoint: Checkpoint) -> Mapping[str, RawTensor]:
    """The tensors under the names of the files themselves."""
    if isinstance(checkpoint, SafetensorsFolder):
        return SafetensorsFolder(checkpoint.path).tensors
    return checkpoint.tensors


def _checked(text: str, names: Mapping[str, object], where: str) -> Provenance:
    config = parse_json_object(text.encode(), f"{where}: key {CONFIG_KEY}")
    dtypes: dict[str, str] = {}
    for name, dtype in names.items():
        if not isinstance(dtype, str) or dtype not in WRITABLE:
            raise CheckpointError(f"{where}: key {DTYPES_KEY}: tensor {name[:80]!r} has no type")
        dtypes[name] = dtype
    return Provenance(text, config, dtypes, itself=False)
