"""The packaged drafter through every layout, with its real target."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from draftwalk.convert import Container, Options, convert
from draftwalk.draft.pairing import packaged_drafters
from draftwalk.fetch import resolve
from draftwalk.models import open_model
from draftwalk.weights import Checkpoint, SafetensorsFolder


@cache
def target() -> Checkpoint:
    return open_model(resolve("smollm2-135m"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged drafter as a Hugging Face folder, its selector's tables multiplied out."""
    place = tmp_path_factory.mktemp("drafter") / "hf"
    convert(open_model(packaged_drafters()[0]), place, "hf", Options(target=target()))
    return place


@pytest.mark.parametrize(("between", "name"), [("gguf", "x.gguf"), ("speculators", "x")])
def test_there_and_back(between: Container, name: str, folder: Path, tmp_path: Path) -> None:
    convert(open_model(folder), tmp_path / name, between, Options(target=target()))
    convert(open_model(tmp_path / name), tmp_path / "back", "hf", Options())
    back, source = SafetensorsFolder(tmp_path / "back"), SafetensorsFolder(folder)
    assert (tmp_path / "back" / "config.json").read_text() == (folder / "config.json").read_text()
    assert back.tensors.keys() == source.tensors.keys()
    for tensor, raw in source.tensors.items():
        assert back.tensors[tensor].format is raw.format, tensor
        assert np.array_equal(back.tensors[tensor].data, raw.data), tensor
