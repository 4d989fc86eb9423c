"""Files appear whole, and what killed processes left of them goes with the next try."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from draftwalk.weights.whole_file import partial_beside, whole_file

needs_processes = pytest.mark.skipif(sys.platform == "win32", reason="asking would end them")


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@needs_processes
def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    path, dead, alive = tmp_path / "x.gguf", gone(), os.getppid()
    left = [f".x.gguf.{dead}.partial", f"..x.gguf.{dead}.partial.{dead}.partial"]
    others = [
        f".x.gguf.{alive}.partial",  # somebody is at it
        f".y.gguf.{dead}.partial",
        f".x.gguf.{dead}.partial.txt",
        f"x.gguf.{dead}.partial",
        ".x.gguf.partial",
    ]
    for name in (*left, *others):
        (tmp_path / name).write_text("half")
    (tmp_path / f".x.gguf.1{dead}{dead}{dead}.partial").mkdir()  # a number no process has
    with whole_file(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([*others, "x.gguf"])


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before")
    with pytest.raises(ValueError, match="no"), whole_file(path) as file:  # noqa: PT012
        assert partial_beside(path).is_file()
        file.write(b"half")
        raise ValueError("no")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("x", b"before")]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "no" / "x"):
        pass
