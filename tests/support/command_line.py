"""Calling the command line from tests."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from draftwalk.cli import app

EXACT = ("--dtype", "float64", "-t", "1")


@dataclass(frozen=True)
class Outcome:
    """What a call did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def call(*arguments: str | Path, stdin: str | None = None) -> Outcome:
    """In this process."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)
    return Outcome(result.exit_code, result.stdout, result.stderr)


def spawn(*arguments: str | Path, stdin: str | None = None) -> Outcome:
    """In a process of its own, as a user does."""
    command = [sys.executable, "-m", "draftwalk.cli", *map(str, arguments)]
    done = subprocess.run(
        command, input=stdin or "", capture_output=True, text=True, timeout=120, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def listen_to_interrupts() -> None:
    """For children: tests may run in the background of a shell, whose processes ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
