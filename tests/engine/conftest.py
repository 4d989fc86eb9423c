from pathlib import Path

import pytest
import torch

from draftwalk.engine import Engine, Placement, load
from support.talking_model import write_drafter, write_target


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny target with words, and a drafter for it."""
    folder = tmp_path_factory.mktemp("engine")
    return write_target(folder / "t.gguf"), write_drafter(folder / "d2")


@pytest.fixture
def engine(pair: tuple[Path, Path]) -> Engine:
    """Both of them in float64, with nothing to answer yet."""
    return load(*pair, Placement(dtype=torch.float64))
