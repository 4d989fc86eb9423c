"""llama.cpp as an arm: a process that stays, asked over a pipe, with a clock of its own.

Between questions it sleeps. It drafts with the window it was started with, so each has its own.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from draftwalk.errors import UserError
from speculation_parts.answer import Answer, Question


@dataclass(frozen=True, slots=True)
class Answering:
    """How a process is started.

    Attributes:
        binary: `llama_answers` of the referee.
        threads: that compute.
        context: most tokens of a text.
    """

    binary: Path
    threads: int
    context: int

    def command(self, target: Path, drafter: Path | None, n_max: int) -> list[str]:
        """The command line; without a drafter it decodes plainly."""
        command = [str(self.binary), str(target), str(self.threads), str(self.context)]
        return command if drafter is None else [*command, str(drafter), str(n_max)]


class LlamaProcess:
    """One model of llama.cpp.

    Args:
        answering: how it is started.
        target: a GGUF file.
        drafter: a GGUF file of a DFlash or DFlash2 drafter, or `None`.
        n_max: tokens to draft.

    Raises:
        UserError: it does not start.
    """

    def __init__(
        self, answering: Answering, target: Path, drafter: Path | None = None, n_max: int = 0
    ) -> None:
        if not answering.binary.is_file():
            raise UserError(
                f"{answering.binary} is not there",
                "build it with referee/build_llama_answers.py, or leave llama.cpp out (--engines)",
            )
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            answering.command(target, drafter, n_max),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        try:
            self._read()  # says that it is ready
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> LlamaProcess:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        # Where it had ended by itself, a question that it never read may still be in the buffer.
        with suppress(BrokenPipeError), self._process as process:
            process.kill()
        self._log.close()

    def ask(self, question: Question) -> Answer:
        """Answers.

        Raises:
            UserError: it has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line_of(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise UserError(f"llama.cpp has ended: {self._last_words()}") from None
        return answer_of(self._read())

    def _read(self) -> Mapping[str, object]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UserError(f"llama.cpp has ended: {self._last_words()}")
        told = json.loads(line)
        assert isinstance(told, dict)
        return told

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        return " | ".join(self._log.read().decode(errors="replace").splitlines()[-3:])


def line_of(question: Question) -> str:
    """A question as the process reads it."""
    words = (question.temperature, question.seed, question.tokens, *question.prompt)
    return " ".join(map(str, words))


def answer_of(told: Mapping[str, object]) -> Answer:
    """An answer from what the process writes."""
    tokens = told["tokens"]
    assert isinstance(tokens, list)

    def number(name: str) -> float:
        value = told[name]
        assert isinstance(value, int | float)
        return value

    return Answer(
        tokens=tuple(tokens),
        prompt_s=number("prompt_ms") / 1e3,
        decode_s=number("decode_ms") / 1e3,
        steps=int(number("steps")),
        verified=int(number("verified")),
        drafted=int(number("drafted")),
        accepted=int(number("accepted")),
    )
