from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftwalk import registry
from draftwalk.errors import CheckpointError, UserError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "scanned"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("THINGS = 1")
    (folder / "two.py").write_text("THINGS = (2, 3)")
    (folder / "_helper.py").write_text("raise AssertionError('helpers are not imported')")
    (folder / "other.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "scanned"]:
        del sys.modules[name]


def test_finds_one_or_several_per_file(package: Path) -> None:
    assert registry.find("scanned", "THINGS", int, helpers=("other",)) == [1, 2, 3]


def test_a_file_that_declares_nothing_is_a_mistake(package: Path) -> None:
    with pytest.raises(TypeError, match=r"scanned\.other does not define THINGS"):
        registry.find("scanned", "THINGS", int)


def test_a_declaration_of_another_type_is_a_mistake(package: Path) -> None:
    (package / "other.py").write_text("THINGS = 'x'")
    with pytest.raises(TypeError, match=r"scanned\.other\.THINGS is not a int"):
        registry.find("scanned", "THINGS", int)


def test_duplicates_are_a_mistake() -> None:
    assert registry.index([3, 5], lambda n: (n, -n)) == {3: 3, -3: 3, 5: 5, -5: 5}
    with pytest.raises(TypeError, match="3 is declared twice"):
        registry.index([3, -3], lambda n: (abs(n),))


def test_an_unknown_name_lists_what_there_is() -> None:
    table = {"llama": 1, "qwen2": 2}
    assert registry.pick(table, "qwen2", "architecture") == 2
    with pytest.raises(UserError) as caught:
        registry.pick(table, "lama", "x.gguf: architecture", CheckpointError)
    assert isinstance(caught.value, CheckpointError)
    assert str(caught.value) == (
        "x.gguf: architecture 'lama' is not implemented "
        "(did you mean llama? implemented: llama, qwen2)"
    )
    with pytest.raises(UserError, match="implemented: none"):
        registry.pick({}, "x", "thing")
