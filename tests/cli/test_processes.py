import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import EXACT, listen_to_interrupts, spawn
from support.talking_model import write_target

COMMAND = [sys.executable, "-m", "draftwalk.cli"]


def test_answers_and_the_rest_are_apart(files: Path) -> None:
    outcome = spawn("run", "-m", files / "t.gguf", "-md", files / "d2", *EXACT, "-n", "9", "hi")
    assert outcome.code == 0
    assert len(outcome.out) == 10
    assert outcome.err.startswith("prompt ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["run", "-h"], 0),
        (["chat", "--help"], 0),
        (["info", "--help"], 0),
        (["run", "-c", "many", "hi"], 2),
        (["run", "--no-such-option"], 2),
        (["walk"], 2),
        (["run", "-m", "no-such-model", "--offline", "hi"], 1),
        (["info", "no-such-model"], 1),
    ],
)
def test_exit_codes(arguments: list[str], code: int) -> None:
    outcome = spawn(*arguments)
    assert outcome.code == code
    assert "Traceback" not in outcome.err
    assert bool(outcome.out) == (code == 0)
    assert bool(outcome.err) == (code != 0)


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys\nsys.argv = ['draftwalk', *sys.argv[1:]]\n"
        "import draftwalk.cli\n"
        "try: draftwalk.cli.main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'numpy', 'tokenizers', 'huggingface_hub'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    for arguments in (["--help"], ["run", "--help"], ["chat", "--help"], ["info", "--help"]):
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)


@pytest.fixture
def talker(tmp_path: Path) -> list[str]:
    """A command that talks for a long time."""
    model = write_target(tmp_path / "long.gguf", context=100_000)
    return [*COMMAND, "run", "-m", str(model), "-md", "none", "-c", "0", "-t", "1", "hi"]


def test_an_interrupt_leaves_a_clean_line(talker: list[str]) -> None:
    with subprocess.Popen(
        talker,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        preexec_fn=listen_to_interrupts,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(5)
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()
    assert process.returncode == 130
    assert out.endswith(b"\n")
    assert err.strip() == b""


def test_a_reader_that_has_enough_is_no_error(talker: list[str]) -> None:
    with subprocess.Popen(
        talker, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(5)
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 1
    assert err == b""


def test_a_terminal_that_knows_few_characters_is_enough(files: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text("caf\u00e9\n", encoding="utf-8")
    arguments = ["-m", str(files / "t.gguf"), "-md", "none", "-n", "3", "--prompts", str(prompts)]
    done = subprocess.run(
        [*COMMAND, "run", *arguments, *EXACT],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0
    assert done.stdout.startswith(b"[1] caf?\n")
