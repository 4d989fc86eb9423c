"""A GGUF file as a checkpoint: canonical names and configuration by way of a dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from draftwalk.errors import CheckpointError
from draftwalk.weights.dialect import Config, Dialect
from draftwalk.weights.fields import INDEX, TEXT, TEXTS, Fields
from draftwalk.weights.gguf import GgufFile
from draftwalk.weights.gguf_config import canonical_config
from draftwalk.weights.gguf_generation import generation_config
from draftwalk.weights.gguf_values import Value
from draftwalk.weights.names import NameMap, common_names
from draftwalk.weights.tensor import RawTensor


class GgufCheckpoint:
    """One GGUF file, understood.

    Args:
        file: the file.
        dialect: how its architecture names things.
    """

    def __init__(self, file: GgufFile, dialect: Dialect) -> None:
        _refuse_other_uses(file)
        _check_vocabulary(file)
        self.file = file
        self.config: Config = canonical_config(file, dialect)
        self.generation: Config = generation_config(file)
        self.tensors: Mapping[str, RawTensor] = _Adapted(file, dialect, self.config)

    @property
    def path(self) -> Path:
        """The file."""
        return self.file.path

    @property
    def container(self) -> Literal["gguf", "safetensors"]:
        """Always "gguf"."""
        return "gguf"

    @property
    def architecture(self) -> str:
        """Hugging Face's class."""
        return Fields(self.config, self.file.name).need("architectures", TEXTS)[0]

    @property
    def metadata(self) -> Mapping[str, Value]:
        """The file's own keys: the tokenizer and chat template are among them."""
        return self.file.metadata


class _Adapted(Mapping[str, RawTensor]):
    """Tensors by canonical name, put into Hugging Face's order when one is asked for.

    A name the dialect does not know stays as it is, so that it is left over and told by its name.
    """

    def __init__(self, file: GgufFile, dialect: Dialect, config: Config) -> None:
        names = name_map(dialect)
        self._dialect = dialect
        self._config = config
        self._raw: dict[str, RawTensor] = {}
        for gguf, raw in file.tensors.items():
            name = names.canonical(gguf) or gguf
            if name in self._raw:
                raise CheckpointError(f"{file.name}: tensor {gguf} is a second {name}")
            self._raw[name] = replace(raw, name=name)

    def __getitem__(self, name: str) -> RawTensor:
        return self._dialect.adapt(self._raw[name], self._config)

    def __contains__(self, name: object) -> bool:
        return name in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def name_map(dialect: Dialect) -> NameMap:
    """The names of a dialect; its own come first."""
    common = common_names(dialect.prefix)
    return NameMap(
        {**dialect.tensors, **{k: v for k, v in common.items() if k not in dialect.tensors}}
    )


def _refuse_other_uses(file: GgufFile) -> None:
    """Files that are GGUF but no whole model."""
    general = Fields(file.metadata, file.name)
    kind = general.get("general.type", TEXT, "model")
    if kind != "model":
        general.fail(f"it holds a {kind[:40]!r}, not a model", "give the model's own file")
    parts = general.get("split.count", INDEX, 1)
    if parts > 1:
        general.fail(
            f"it is one of {parts} parts of a model, which is not implemented",
            "join them with `llama-gguf-split --merge`",
        )


def _check_vocabulary(file: GgufFile) -> None:
    """Vocabulary arrays must have their types, and one entry per token where they are per token."""
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    count = len(tokens) if isinstance(tokens, list) else 0
    for key, kind, per_token in (
        ("tokenizer.ggml.tokens", str, True),
        ("tokenizer.ggml.scores", float, True),
        ("tokenizer.ggml.token_type", int, True),
        ("tokenizer.ggml.merges", str, False),
    ):
        if key not in file.metadata:
            continue
        value = file.metadata[key]
        # Elements of one array have one type: the first tells it. bool is no int here.
        if not isinstance(value, list) or (value and type(value[0]) is not kind):
            raise CheckpointError(f"{file.name}: key {key} is no array of {kind.__name__}")
        if per_token and len(value) != count:
            raise CheckpointError(
                f"{file.name}: key {key} has {len(value)} values for {count} tokens"
            )
