"""The models that are measured: where each file comes from, or how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cpu_parts.random_weights import QWEN3_06B, QWEN3_17B, Shape, write_qwen3
from cpu_parts.requantise import requantise
from draftwalk.errors import UserError
from draftwalk.fetch import resolve
from draftwalk.weights import GgufFile

RECIPE = "recipe 1"  # to be changed with what is written
DEFAULT_FOLDER = Path("~/.cache/draftwalk/benchmarks")
SMOLLM2, GEMMA = "smollm2-135m", "gemma3-270m"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where models come from.

    Attributes:
        folder: keeps what is written.
        given: paths of the real models, by the names the package knows them by.
    """

    folder: Path = DEFAULT_FOLDER
    given: Mapping[str, Path] = field(default_factory=dict)

    def real(self, name: str) -> Path:
        """A real model, as given or as the package fetches it."""
        return self.given[name] if name in self.given else resolve(name)

    def made(self, file_name: str, write: Callable[[Path], None]) -> Path:
        """A file of ours, written unless the same was written before."""
        folder = self.folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / file_name
        if not _is_current(path):
            write(path)
        return path


def _is_current(path: Path) -> bool:
    try:
        return RECIPE in str(GgufFile(path).metadata.get("general.name"))
    except UserError:
        return False


Make = Callable[[Sources], Path]


def _requantised(format_name: str) -> Make:
    def make(sources: Sources) -> Path:
        source = sources.real(SMOLLM2)
        return sources.made(
            f"smollm2-135m-{format_name.lower()}.gguf",
            lambda path: requantise(source, path, format_name, RECIPE),
        )

    return make


def _random(name: str, shape: Shape, matrices: str, embedding: str) -> Make:
    def make(sources: Sources) -> Path:
        return sources.made(
            f"{name}.gguf",
            lambda path: write_qwen3(path, shape, matrices, embedding, RECIPE),
        )

    return make


# In the Q4_K files the embedding, which is the head too, is Q6_K, as in llama.cpp's Q4_K_M.
MODELS: Mapping[str, Make] = {
    "smollm2-q4_1": lambda sources: sources.real(SMOLLM2),
    "smollm2-q4_0": _requantised("Q4_0"),
    "smollm2-q8_0": _requantised("Q8_0"),
    "gemma3-270m": lambda sources: sources.real(GEMMA),
    "qwen3-0.6b-q4_k": _random("qwen3-0.6b-q4_k", QWEN3_06B, "Q4_K", "Q6_K"),
    "qwen3-0.6b-q8_0": _random("qwen3-0.6b-q8_0", QWEN3_06B, "Q8_0", "Q8_0"),
    "qwen3-1.7b-q4_k": _random("qwen3-1.7b-q4_k", QWEN3_17B, "Q4_K", "Q6_K"),
    "qwen3-1.7b-q8_0": _random("qwen3-1.7b-q8_0", QWEN3_17B, "Q8_0", "Q8_0"),
}


def model_file(name: str, sources: Sources) -> Path:
    """The file of a model by its name here, or any GGUF file by its path."""
    if name in MODELS:
        return MODELS[name](sources)
    path = Path(name)
    if path.is_file():
        return path
    raise UserError(f"{name} is no model of this benchmark", f"known: {', '.join(MODELS)}")
