"""How the GGUF files of one architecture name things: declared in the architecture's own file.

A dialect adds to what all architectures share (`names.common_names`, `gguf_config.COMMON_KEYS`), or
replaces entries of it. A metadata key under `<name>.` that neither knows is refused, because a
setting that is silently ignored becomes wrong text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from draftwalk.weights.fields import Kind
from draftwalk.weights.gguf import GgufFile
from draftwalk.weights.tensor import RawTensor

Config = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Key:
    """One metadata key under `<name>.`.

    Attributes:
        kind: what its value must be.
        config: the configuration key it becomes; empty if only `derive` looks at it.
        required: a file without it is refused.
    """

    kind: Kind[object]
    config: str = ""
    required: bool = False


def _nothing(file: GgufFile, config: Config) -> Config:
    return {}


def _unchanged(raw: RawTensor, config: Config) -> RawTensor:
    return raw


@dataclass(frozen=True, slots=True)
class Dialect:
    """One value of `general.architecture`.

    Attributes:
        name: that value, and the prefix of its keys.
        architecture: Hugging Face's class, `LlamaForCausalLM`.
        model_type: Hugging Face's `model_type`.
        prefix: in front of canonical names, except of `lm_head` and `rope_freqs`.
        tensors: GGUF name to canonical name in full; `{i}` is the layer.
        keys: by what follows `<name>.`.
        fixed: configuration that holds for every file of the architecture.
        derive: configuration that follows from the file and from what was read so far; it wins.
        adapt: puts a tensor, under its canonical name, into Hugging Face's order. It may permute
            rows of packed weights but not compute on them. Called when the tensor is taken.
    """

    name: str
    architecture: str
    model_type: str
    prefix: str = "model."
    tensors: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    fixed: Config = field(default_factory=dict)
    derive: Callable[[GgufFile, Config], Config] = _nothing
    adapt: Callable[[RawTensor, Config], RawTensor] = _unchanged
