"""Standard streams that are closed, full, or know few characters: a shell sets them up."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import EXACT, Outcome
from support.talking_model import write_target


def shell(redirected: str, *arguments: str | Path, **variables: str) -> Outcome:
    command = [sys.executable, "-m", "draftwalk.cli", *map(str, arguments)]
    done = subprocess.run(
        f"{shlex.join(command)} {redirected}",
        shell=True,
        capture_output=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> tuple[str | Path, ...]:
    """Arguments of a short run; what the model's path has in it not every terminal knows."""
    model = write_target(tmp_path_factory.mktemp("m") / "caf\u00e9\u2603.gguf")
    return ("run", "-m", model, "-md", "none", *EXACT, "-n", "3")


def test_an_answer_needs_no_stdin(ask: tuple[str | Path, ...]) -> None:
    assert shell("<&-", *ask, "-q", "hi").code == 0
    nothing = shell("<&-", *ask, "-q")
    assert (nothing.code, nothing.out) == (1, "")
    assert nothing.err.startswith("error: the prompt is empty")


@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_an_answer_needs_no_stderr(ask: tuple[str | Path, ...], redirected: str) -> None:
    outcome = shell(redirected, *ask, "hi")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == shell("", *ask, "-q", "hi").out


@pytest.mark.parametrize("redirected", [">&-", ">/dev/full", "<&- >&-"])
@pytest.mark.parametrize("shown", [("--json",), ("--show-draft", "-q"), ("-q",)])
def test_an_answer_that_cannot_be_written_is_one_line(
    ask: tuple[str | Path, ...], redirected: str, shown: tuple[str, ...]
) -> None:
    outcome = shell(redirected, *ask, *shown, "hi")
    assert outcome.code == 1
    last = outcome.err.splitlines()[-1]
    assert last.startswith("error: stdout cannot be written to: ")
    assert len(outcome.err.splitlines()) == 1 + ("--show-draft" in shown)


def test_facts_that_cannot_be_written_are_one_line(ask: tuple[str | Path, ...]) -> None:
    facts = ("info", ask[2]), ("info", "--json", ask[2])
    for arguments in (*facts, ("--version",), ("run", "--help")):
        outcome = shell(">/dev/full", *arguments)
        assert outcome.code == 1
        assert outcome.err.startswith("error: stdout cannot be written to: No space left")
        assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_json_loses_nothing_on_any_terminal(ask: tuple[str | Path, ...], encoding: str) -> None:
    for arguments in ((*ask, "--json", "-q", "hi"), ("info", "--json", ask[2])):
        outcome = shell("", *arguments, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
        assert outcome.code == 0
        found = json.loads(outcome.out)
        path = found["model"] if "model" in found else found["files"][0]["file"]
        assert Path(path) == ask[2]
        assert ("\u2603" in outcome.out) == (encoding == "utf-8")


def test_a_conversation_nobody_can_see_ends(ask: tuple[str | Path, ...]) -> None:
    turns = ask[2].parent / "turns"
    turns.write_text("hello\nhello\n")
    outcome = shell(f"<{shlex.quote(str(turns))} >/dev/full", "chat", *ask[1:])
    assert outcome.code == 1
    assert outcome.err == "error: stdout cannot be written to: No space left on device\n"
