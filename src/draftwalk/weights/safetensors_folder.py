"""A Hugging Face folder as a checkpoint: config.json and safetensors, whole or in shards.

Only files that `model.safetensors` is, or that its index names, belong to the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Literal

from draftwalk.errors import CheckpointError
from draftwalk.weights.fields import INDEX, INDEXES, MAPPING, TEXT, TEXTS, Fields
from draftwalk.weights.json_file import read_json_object
from draftwalk.weights.safetensors_file import read_safetensors
from draftwalk.weights.tensor import RawTensor

WEIGHTS = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
CONFIG = "config.json"
GENERATION = "generation_config.json"
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
)


class SafetensorsFolder:
    """One folder, understood. Canonical names are the names in its files.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.config: Mapping[str, object] = read_json_object(path / CONFIG)
        self.generation: Mapping[str, object] = self._read_generation()
        self.tensors: Mapping[str, RawTensor] = _read_tensors(path)

    def translated(
        self, config: Mapping[str, object], tensors: Mapping[str, RawTensor]
    ) -> SafetensorsFolder:
        """The same folder, told in other words."""
        other = copy(self)
        other.config, other.tensors = config, tensors
        return other

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def container(self) -> Literal["gguf", "safetensors"]:
        """Always "safetensors"."""
        return "safetensors"

    @property
    def architecture(self) -> str:
        """The first of config.json's `architectures`."""
        names = Fields(self.config, f"{self._path.name}/{CONFIG}").need("architectures", TEXTS)
        if not names:
            raise CheckpointError(f"{self._path.name}/{CONFIG}: architectures is empty")
        return names[0]

    @property
    def tokenizer_files(self) -> dict[str, Path]:
        """The files about tokens and chat that the folder has, by name."""
        files = ((name, self._path / name) for name in _TOKENIZER_FILES)
        return {name: file for name, file in files if file.is_file()}

    def _read_generation(self) -> dict[str, object]:
        """generation_config.json over the ids of config.json; what either calls a stop is one."""
        file = self._path / GENERATION
        own = read_json_object(file) if file.is_file() else {}
        ids = ("bos_token_id", "pad_token_id")
        base = {key: self.config[key] for key in ids if self.config.get(key) is not None}
        stops = _stops(Fields(own, f"{self._path.name}/{GENERATION}"))
        stops += _stops(Fields(self.config, f"{self._path.name}/{CONFIG}"))
        return {**base, **own, "eos_token_id": list(dict.fromkeys(stops))}


def _stops(fields: Fields) -> list[int]:
    if isinstance(fields.values.get("eos_token_id"), list):
        return fields.need("eos_token_id", INDEXES)
    one = fields.get("eos_token_id", INDEX, None)
    return [] if one is None else [one]


def _read_tensors(path: Path) -> dict[str, RawTensor]:
    if (path / WEIGHTS).is_file():
        return read_safetensors(path / WEIGHTS)
    if not (path / INDEX_FILE).is_file():
        raise CheckpointError(
            f"{path} has neither {WEIGHTS} nor {INDEX_FILE}",
            "only safetensors weights are read from a folder",
        )
    return _read_shards(path)


def _read_shards(path: Path) -> dict[str, RawTensor]:
    index = Fields(read_json_object(path / INDEX_FILE), f"{path.name}/{INDEX_FILE}")
    listed = Fields(index.need("weight_map", MAPPING), f"{index.where}: weight_map")
    shard_of = {name: listed.need(name, TEXT) for name in listed.values}
    tensors: dict[str, RawTensor] = {}
    for shard in dict.fromkeys(shard_of.values()):
        if not _is_plain_name(shard):
            index.fail(f"shard {shard[:40]!r} is no plain name of a safetensors file")
        if not (path / shard).is_file():
            index.fail(f"shard {shard} is missing", "the download is incomplete")
        for name, raw in read_safetensors(path / shard).items():
            if shard_of.get(name) != shard:
                index.fail(f"tensor {name} of {shard} is not listed for that shard")
            tensors[name] = raw
    missing = [name for name in shard_of if name not in tensors]
    if missing:
        index.fail(f"tensor {missing[0]} is not in {shard_of[missing[0]]}")
    return tensors


def _is_plain_name(name: str) -> bool:
    """No folder parts: an index may only name files beside it."""
    return (
        name.isprintable()
        and name.endswith(".safetensors")
        and not name.startswith(".")
        and not any(part in name for part in ("/", "\\", ":"))
    )
