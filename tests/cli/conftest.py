from pathlib import Path

import pytest

from support.talking_model import write_drafter, write_target


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Targets with and without a chat template, and drafters that fit t.gguf or do not."""
    folder = tmp_path_factory.mktemp("models")
    write_target(folder / "t.gguf")
    write_target(folder / "mute.gguf", template=None)
    write_target(folder / "short.gguf", context=96)
    write_drafter(folder / "d2")
    write_drafter(folder / "d1", selector=False)
    write_drafter(folder / "wide", width=64)
    write_drafter(folder / "deep", taps=(0, 7))
    write_drafter(folder / "foreign", vocabulary=200)
    return folder
