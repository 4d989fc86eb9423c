"""What is asked for of the drafter alone."""

from pathlib import Path

import pytest

from draftwalk.ops import choice
from support.command_line import call

needs_extension = pytest.mark.skipif(choice.extension_fault() is not None, reason="no extension")


def run(files: Path, *options: str | Path, drafter: str = "d2") -> tuple[int, str, str]:
    named = "none" if drafter == "none" else files / drafter
    pair = ("-m", files / "t.gguf", "-md", named)
    outcome = call("run", *pair, "hi", "-n", "12", "--temp", "0", "-q", *options)
    return outcome.code, outcome.out, outcome.err


@pytest.mark.parametrize("drafter", ["d1", "d2"])
def test_a_draft_vocabulary_changes_no_text(files: Path, drafter: str, tmp_path: Path) -> None:
    listed = tmp_path / "ids"
    listed.write_text("\n".join(map(str, range(5, 40))))
    plain = run(files, drafter="none")
    assert plain[0] == 0
    assert run(files, "--draft-vocabulary", listed, drafter=drafter)[:2] == plain[:2]


def test_a_draft_vocabulary_that_cannot_be_used(files: Path, tmp_path: Path) -> None:
    listed = tmp_path / "ids"
    listed.write_text("5\n6\n")
    code, _, err = run(files, "--draft-vocabulary", listed)
    assert code == 1
    assert "names 2 tokens, this drafter chooses among 4" in err
    code, _, err = run(files, "--draft-vocabulary", listed, drafter="none")
    assert code == 1
    assert "is for a drafter, but there is none" in err
    code, _, err = run(files, "--draft-vocabulary", tmp_path / "missing")
    assert code == 1
    assert "cannot be read" in err


@needs_extension
def test_kv_types(files: Path) -> None:
    plain = run(files, drafter="none")
    assert run(files, "--draft-kv-type", "f16")[:2] == plain[:2]
    code, _, err = run(files, "--draft-kv-type", "q8")
    assert code == 1
    assert "multiple of 32 values" in err


def test_kv_types_of_the_other_back_end(files: Path) -> None:
    """Refused, by `info` too, rather than passed over."""
    torch = ("--backend", "torch")
    assert run(files, "--draft-kv-type", "f16", *torch)[0] == 0
    for option in ("--draft-kv-type", "--kv-type"):
        assert run(files, option, "q8", *torch)[0] == 1
        told = call("info", files / "t.gguf", files / "d2", option, "q8", *torch)
        assert told.code == 1
        assert "K/V in q8 are the native back end's" in told.err
