"""Builds the tokenizer that a Hugging Face folder describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from draftwalk.errors import CheckpointError
from draftwalk.prompt.library import (
    LibraryEncoder,
    decoder_steps,
    library_vocabulary,
    load_library,
    special_splitter,
    strips_one_space,
)
from draftwalk.prompt.spelling import Spelling
from draftwalk.prompt.stop_tokens import generation_stops, stop_ids
from draftwalk.prompt.tokenizer import Tokenizer

_LARGEST = 256 << 20  # bytes of one file; the largest tokenizer.json known have about 35 MB


def tokenizer_from_folder(
    folder: Path, generation: Mapping[str, object] | None = None
) -> Tokenizer:
    """The tokenizer of a Hugging Face folder: `tokenizer.json` and the small files beside it.

    Args:
        folder: where the files lie.
        generation: a generation config whose `eos_token_id` joins the stop ids.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(
            f"{folder} has no tokenizer.json", "older tokenizer files must be converted first"
        )
    config = {
        **_optional(folder / "special_tokens_map.json"),
        **_optional(folder / "tokenizer_config.json"),
    }
    if "chat_template" not in config:
        config |= _optional(folder / "chat_template.json")
    template = folder / "chat_template.jinja"
    if template.is_file():
        config["chat_template"] = _read(template)
    return tokenizer_from_json(_read(path), config, generation or {})


def tokenizer_from_json(
    source: str, config: Mapping[str, object], generation: Mapping[str, object]
) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`.

    Args:
        source: the file's text.
        config: content of `tokenizer_config.json`; `bos_token`, `eos_token`, `add_bos_token` and
            `chat_template` are read.
        generation: a generation config whose `eos_token_id` joins the stop ids.
    """
    content = _parse("tokenizer.json", source)
    library = load_library(source)
    vocabulary = library_vocabulary(library, content)
    ids = {text: index for index, text in enumerate(vocabulary.tokens) if text}
    bos_id, eos_id = (_special(config, name, ids) for name in ("bos_token", "eos_token"))
    named = {} if eos_id is None else {"eos_token_id": eos_id}
    encoder = LibraryEncoder(library, special_splitter(vocabulary))
    return Tokenizer(
        encoder=encoder,
        spelling=Spelling(vocabulary),
        bos_id=bos_id,
        eos_id=eos_id,
        add_bos=_add_bos(config, bos_id, encoder),
        stop_ids=stop_ids(vocabulary, ids, named) | generation_stops(generation),
        strips_leading_space=any(strips_one_space(step) for step in decoder_steps(content)),
        chat_template=_chat_template(config),
    )


def _special(config: Mapping[str, object], name: str, ids: Mapping[str, int]) -> int | None:
    """The id of a special token that is given as a text, or as an object with one."""
    value = config.get(name)
    if isinstance(value, dict):
        value = value.get("content")
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise CheckpointError(f"{name} of tokenizer_config.json must be a string, not {value!r}")
    if value not in ids:
        raise CheckpointError(f"{name} of tokenizer_config.json is {value!r}, which is no token")
    return ids[value]


def _add_bos(config: Mapping[str, object], bos_id: int | None, encoder: LibraryEncoder) -> bool:
    value = config.get("add_bos_token")
    if value is None:
        return bos_id is not None and encoder.begins_with(bos_id)
    if not isinstance(value, bool):
        raise CheckpointError(
            f"add_bos_token of tokenizer_config.json must be true or false, not {value!r}"
        )
    return value and bos_id is not None


def _chat_template(config: Mapping[str, object]) -> str | None:
    """The template, or of several named ones the default."""
    value = config.get("chat_template")
    if isinstance(value, list):
        entries = [entry for entry in value if isinstance(entry, dict)]
        default = [entry for entry in entries if entry.get("name") == "default"]
        value = default[-1].get("template") if default else None
    if value is not None and not isinstance(value, str):
        raise CheckpointError("chat_template of tokenizer_config.json must be a string")
    return value


def _optional(path: Path) -> dict[str, object]:
    return _parse(path.name, _read(path)) if path.is_file() else {}


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise CheckpointError(f"{path} has over {_LARGEST >> 20} MB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None


def _parse(name: str, source: str) -> dict[str, object]:
    try:
        content = json.loads(source)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{name} is not valid JSON") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{name} must hold an object")
    return content
