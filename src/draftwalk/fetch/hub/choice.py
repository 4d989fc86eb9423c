"""Which files of a model are wanted: one GGUF file, or a folder of safetensors.

Names decide only what is fetched, as everywhere on the hub; what a file is, its content says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from draftwalk.errors import UserError
from draftwalk.fetch.hub.name import HubName

CONFIG = "config.json"
CARD = "README.md"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
# Besides the weights, all that a folder's reader looks at.
SMALL_FILES = (
    CONFIG,
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
)
# vLLM's: beside a drafter, another row of the embedding for its mask token.
MASK_ROW = "mask_embedding.pt"
MASK_ROW_UNREAD = (
    f"{MASK_ROW}, a row of its own for the mask token, is a pickle and is not read; texts stay the "
    "same, expect less acceptance"
)
_PREFERRED = ("Q4_K_M", "Q8_0")
_OTHER_KINDS = ("mmproj", "imatrix")  # projectors and calibration data lie beside the models
_SHARD = re.compile(r"-\d{5}-of-(\d{5})\.gguf$", re.IGNORECASE)
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Choice:
    """Files to have.

    Attributes:
        files: paths inside the repository.
        gguf: the one that is the model; `None` where the folder is.
    """

    files: tuple[str, ...]
    gguf: str | None

    @property
    def is_sharded(self) -> bool:
        """Whether an index has to be read to know all of the files."""
        return INDEX in self.files


def choose(name: HubName, files: Collection[str]) -> Choice:
    """Chooses among the files there are.

    With a tag the GGUF file of that name or quantisation; without one the folder, if it holds
    safetensors, else the only GGUF file, else Q4_K_M, else Q8_0.

    Raises:
        UserError: there is none, or there are several.
    """
    if name.tag is None and CONFIG in files and (WEIGHTS in files or INDEX in files):
        weights = WEIGHTS if WEIGHTS in files else INDEX
        small = (file for file in (*SMALL_FILES, CARD) if file in files)
        return Choice((*small, weights), None)
    gguf = _gguf(name, sorted(file for file in files if file.lower().endswith(".gguf")))
    return Choice((gguf, CARD) if CARD in files else (gguf,), gguf)


def _gguf(name: HubName, every: Sequence[str]) -> str:
    if name.tag is not None and name.tag in every:
        return _whole(name, name.tag)
    models = [file for file in every if not any(kind in file.lower() for kind in _OTHER_KINDS)]
    if not models:
        raise UserError(
            f"{name.repo} has neither a GGUF file nor {CONFIG} with {WEIGHTS}",
            "other weights, pickles above all, are never opened; look for a conversion",
        )
    if name.tag is not None:
        return _only(name, models, name.tag)
    if len(models) == 1 or all(_SHARD.search(file) for file in models):
        return _whole(name, models[0])
    for tag in _PREFERRED:
        if _of(tag, models):
            return _only(name, models, tag)
    raise UserError(
        f"{name.repo} has {len(models)} GGUF files and none in {' or '.join(_PREFERRED)}",
        f"say which, as {name.repo}:FILE; it has {_list(models)}",
    )


def _only(name: HubName, models: Sequence[str], tag: str) -> str:
    """The one model that is stored as the tag says."""
    found = _of(tag, models)
    if not found:
        raise UserError(f"{name.repo} has no GGUF file {tag}", f"it has {_list(models)}")
    if all(_SHARD.search(file) for file in found):
        _whole(name, found[0])
    if len(found) > 1:
        raise UserError(
            f"{name.repo} has {len(found)} GGUF files that could be {tag}",
            f"say which, as {name.repo}:FILE; they are {_list(found)}",
        )
    return found[0]


def _of(tag: str, models: Sequence[str]) -> list[str]:
    """Models with the tag as a part of their names, in capitals or not."""
    pattern = re.compile(rf"(?:^|[./_-]){re.escape(tag)}[./-]", re.IGNORECASE)
    return [file for file in models if pattern.search(file)]


def _whole(name: HubName, file: str) -> str:
    """The file, if it is not a part of one."""
    part = _SHARD.search(file)
    if part is not None:
        raise UserError(
            f"{file} of {name.repo} is split into {int(part[1])} files, which is not implemented",
            "choose a file that is whole, or join them with llama.cpp's llama-gguf-split --merge",
        )
    return file


def _list(files: Sequence[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(files[:_SHOWN]) + more


def shards(index: Path, name: HubName) -> list[str]:
    """The safetensors files that an index names.

    Raises:
        UserError: it is no index, or names something else.
    """
    try:
        content = json.loads(index.read_bytes())
        listed = sorted(set(content["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        listed = [""]
    for shard in listed:
        is_file = isinstance(shard, str) and shard.endswith(".safetensors")
        if not is_file or "/" in shard or "\\" in shard:
            raise UserError(f"{INDEX} of {name.repo} lists no safetensors files")
    return listed
