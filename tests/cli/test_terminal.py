"""What a person at a terminal sees; a pseudo-terminal stands in for one."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.command_line import EXACT, listen_to_interrupts
from support.talking_model import write_target

PATIENCE = 60.0


class Terminal:
    """A program at a terminal: what it shows, and typing."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self.screen = screen
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def wait_for(self, text: str, after: int = 0) -> int:
        """Reads until the text is shown; where it ends."""
        end = time.monotonic() + PATIENCE
        while (place := self.shown.find(text, after)) < 0:
            assert time.monotonic() < end, f"{text!r} never came after {self.shown!r}"
            assert self.read() or self.process.poll() is None, self.shown
        return place + len(text)

    def read(self) -> bool:
        """Reads what there is; whether there was any."""
        if not select.select([self.screen], [], [], 0.2)[0]:
            return False
        try:
            data = os.read(self.screen, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += data.decode("utf-8", errors="replace")
        return bool(data)

    def finish(self) -> int:
        code = self.process.wait(PATIENCE)
        while self.read():
            pass
        return code


@contextmanager
def terminal(*arguments: str | Path) -> Iterator[Terminal]:
    screen, other = pty.openpty()
    command = [sys.executable, "-m", "draftwalk.cli", *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        command,
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
        env=environment,
        preexec_fn=listen_to_interrupts,
    )
    os.close(other)
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait()
        os.close(screen)


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose answers are long."""
    return write_target(tmp_path_factory.mktemp("m") / "long.gguf", context=100_000)


def test_a_conversation_at_a_terminal(files: Path) -> None:
    with terminal("chat", "-m", files / "t.gguf", "-md", "none", *EXACT, "-n", "4") as t:
        first = t.wait_for("> ")
        t.type("hello\n")
        second = t.wait_for("> ", t.wait_for("hello", first))
        t.type("/reset\n")
        third = t.wait_for("> ", t.wait_for("starts anew", second))
        t.type("\x04")
        assert t.finish() == 0
    assert "Traceback" not in t.shown
    assert t.shown.index("/exit or Ctrl-D ends") < first < third


def test_an_answer_can_be_stopped_and_the_conversation_goes_on(talker: Path) -> None:
    with terminal("chat", "-m", talker, "-md", "none", "-c", "0", "-t", "1") as t:
        t.type("hello\n")
        place = t.wait_for("hello")
        while len(t.shown) < place + 100:
            t.read()
        t.process.send_signal(signal.SIGINT)
        place = t.wait_for("> ", t.wait_for("(stopped)"))
        t.type("/reset\n")
        t.wait_for("> ", t.wait_for("starts anew", place))
        t.type("/exit\n")
        assert t.finish() == 0
    assert "Traceback" not in t.shown


def test_an_interrupt_at_the_prompt_ends_the_conversation(files: Path) -> None:
    with terminal("chat", "-m", files / "t.gguf", "-md", "none", "-t", "1") as t:
        t.wait_for("> ")
        time.sleep(0.5)  # between showing the prompt and waiting for keys a signal is not noticed
        t.process.send_signal(signal.SIGINT)
        assert t.finish() == 130
    assert "Traceback" not in t.shown


def test_a_run_without_a_prompt_does_not_wait(files: Path) -> None:
    with terminal("run", "-m", files / "t.gguf") as t:
        assert t.finish() == 2
    assert "give a prompt" in t.shown


def test_drafts_are_coloured_at_a_terminal(files: Path) -> None:
    drafter = files / "d2"
    with terminal(
        *(
            "run",
            "-m",
            files / "t.gguf",
            "-md",
            drafter,
            *EXACT,
            "-n",
            "30",
            "--show-draft",
            "hello",
        )
    ) as t:
        assert t.finish() == 0
    struck = re.findall(r"\x1b\[[0-9;]*\b9\b[0-9;]*m", t.shown)
    assert len(struck) > 5
    assert "{-" not in t.shown.split("own token")[1]
