"""Files appear whole or not at all, and replace nothing unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from draftwalk.convert import convert, mix_of
from draftwalk.convert.replacing import replacing
from draftwalk.draft.load import read_config
from draftwalk.errors import CheckpointError, UserError
from draftwalk.models import open_model
from support.drafter_folders import target_of
from support.plain_conversion import PLAIN, drafter


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    for to, name in (("gguf", "x.gguf"), ("hf", "folder")):
        convert(drafter(), tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=r"exists \(--force"):
            convert(drafter(), tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
        forced = replace(PLAIN, force=True, outtype=mix_of("f16"))
        done = convert(drafter(), tmp_path / name, to, forced)  # type: ignore[arg-type]
        assert done.formats["F16"] > 10
        opened = open_model(tmp_path / name)
        assert opened.tensors["fc.weight"].format.NAME == "F16"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "x.gguf"]


@pytest.mark.parametrize(("to", "name"), [("gguf", "x.gguf"), ("hf", "x")])
def test_what_came_meanwhile_is_not_replaced_either(to: str, name: str, tmp_path: Path) -> None:
    def progress(done: int, total: int) -> None:
        if done == total:
            (tmp_path / name).write_text("precious")

    with pytest.raises(UserError, match=r"exists \(--force"):
        convert(drafter(), tmp_path / name, to, replace(PLAIN, progress=progress))  # type: ignore[arg-type]
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [(name, "precious")]


def test_a_folder_with_other_things_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    place.mkdir()
    convert(drafter(), place, "hf", PLAIN)  # an empty one is free
    (place / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"holds thesis\.tex"):
        convert(drafter(), place, "hf", replace(PLAIN, force=True))
    assert (place / "thesis.tex").read_text() == "years of work"


def test_a_file_where_a_folder_shall_be(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a")
    convert(drafter(), tmp_path / "x", "hf", replace(PLAIN, force=True))
    assert (tmp_path / "x" / "config.json").is_file()
    with pytest.raises(UserError, match="there is no folder"):
        convert(drafter(), tmp_path / "no" / "x.gguf", "gguf", PLAIN)


def test_the_source_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    convert(drafter(), path, "gguf", PLAIN)
    with pytest.raises(UserError, match="is what is converted"):
        convert(open_model(path), tmp_path / "." / "x.gguf", "gguf", replace(PLAIN, force=True))


def test_nothing_that_is_read_is_written_over(tmp_path: Path) -> None:
    """Neither the target nor a file of a source's folder, whatever --force says."""
    forced = replace(PLAIN, force=True)
    convert(drafter(), tmp_path / "folder", "hf", PLAIN)
    source = open_model(tmp_path / "folder")
    with pytest.raises(UserError, match="lies in what is converted"):
        convert(source, tmp_path / "folder" / "model.safetensors", "gguf", forced)
    target = replace(target_of(64), path=tmp_path / "target.gguf")
    target.path.write_bytes(b"weights")
    with pytest.raises(UserError, match="is the target"):
        convert(source, target.path, "gguf", replace(forced, target=target))
    assert read_config(open_model(tmp_path / "folder")) is not None
    assert target.path.read_bytes() == b"weights"


def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is no regular file, so it is not replaced"):
        convert(drafter(), tmp_path / "pipe", "gguf", replace(PLAIN, force=True))
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(CheckpointError, match="is no regular file"):
        open_model(tmp_path / "pipe")


class StoppedError(Exception):
    """In place of Ctrl-C."""


@pytest.mark.parametrize(("to", "name"), [("gguf", "x.gguf"), ("hf", "x")])
def test_a_stop_in_the_middle_leaves_what_was_there(to: str, name: str, tmp_path: Path) -> None:
    convert(drafter(), tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        if done * 2 > total:
            raise StoppedError

    options = replace(PLAIN, force=True, progress=progress, outtype=mix_of("f16"))
    with pytest.raises(StoppedError):
        convert(drafter(), tmp_path / name, to, options)  # type: ignore[arg-type]
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert seen == sorted(seen)
    assert seen[0][0] > 0


def test_progress_ends_at_its_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    options = replace(PLAIN, progress=lambda done, total: seen.append((done, total)))
    done = convert(drafter(), tmp_path / "x.gguf", "gguf", options)
    assert seen[-1] == (done.bytes, done.bytes)
    assert len(seen) == sum(done.formats.values())


def fill(place: Path) -> None:
    with replacing(place, True) as new:
        new.mkdir()
        (new / "config.json").write_text("new")


def test_replacing_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "x"
    place.mkdir()
    (place / "config.json").write_text("old")
    rename = Path.rename

    def failing(self: Path, other: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError(28, "No space left on device")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(UserError, match="cannot be written: No space"):
        fill(place)
    assert (place / "config.json").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


@pytest.mark.skipif(sys.platform == "win32", reason="asking after a process would end it")
@pytest.mark.parametrize(("to", "name"), [("gguf", "x.gguf"), ("hf", "x")])
def test_what_a_killed_conversion_left_is_removed(to: str, name: str, tmp_path: Path) -> None:
    """Also where it had this process's number, as the first process of a container has."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    for number in (process.pid, os.getpid()):
        left = tmp_path / f".{name}.{number}.partial"
        if to == "gguf":
            left.write_text("half")
        else:
            left.mkdir()
            (left / "config.json").write_text("{}")
    convert(drafter(), tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
