"""A conversation: turns, the state they share, and the dialogue around them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from draftwalk.cli import report
from draftwalk.cli.answer import Asked, Format
from draftwalk.cli.prompts import Prompt
from draftwalk.cli.streams import StdoutError, say, write
from draftwalk.engine import Engine
from draftwalk.errors import PromptError, UserError
from draftwalk.result import Result
from draftwalk.sequence import Sequence

_HELP = "a line is a turn; /reset starts anew, /exit or Ctrl-D ends, Ctrl-C stops an answer"


class Conversation:
    """Turns with one model.

    Args:
        engine: whose answers.
        form: system message and template arguments.
        asked: how every turn is answered.
    """

    def __init__(self, engine: Engine, form: Format, asked: Asked) -> None:
        if engine.template is None:
            raise PromptError(
                f"{engine.checkpoint.path.name} has no chat template",
                "`draftwalk run` continues a text",
            )
        self._engine = engine
        self._form = form
        self._asked = asked
        self._messages: list[tuple[str, str]] = []
        self._last: Sequence | None = None

    def turn(self, line: str, on_text: Callable[[str], None]) -> Result:
        """Answers a line. A turn that fails leaves the conversation as it was.

        Raises:
            UserError: the turn could not be answered.
        """
        engine, asked = self._engine, self._asked
        messages = [*self._messages, ("user", line)]
        ids = self._form.encode(engine, Prompt(messages=tuple(messages)))
        text = engine.start(ids, asked.sampling, asked.limits, asked.window, after=self._last)
        self._last = text
        said: list[str] = []
        try:
            for step in engine.steps(text):
                said.append(step.text)
                on_text(step.text)
        except BaseException:
            self._forget_state()  # it may stand in the middle of a step
            if answer := "".join(said):
                self._messages = [*messages, ("assistant", answer)]
            raise
        if text.error is not None:
            raise text.error
        self._messages = [*messages, ("assistant", "".join(said))]
        return Result.of(text)

    def reset(self) -> None:
        """Forgets every turn."""
        self._messages = []
        self._forget_state()

    def _forget_state(self) -> None:
        if self._last is not None:
            self._engine.release(self._last)
            self._last = None


def talk(conversation: Conversation, verbose: bool) -> None:
    """The dialogue: reads lines until they end, writes answers."""
    interactive = sys.stdin.isatty()
    if interactive:
        say(_HELP)
    for line in _lines(interactive):
        command = line.strip()
        if command in ("/exit", "/quit"):
            return
        if command == "/reset":
            conversation.reset()
            say("(the conversation starts anew)")
        elif command in ("/help", "/?"):
            say(_HELP)
        elif command:
            _answer(conversation, line, verbose, interactive)


def _answer(conversation: Conversation, line: str, verbose: bool, interactive: bool) -> None:
    try:
        result = conversation.turn(line, write)
    except StdoutError:
        raise
    except UserError as error:
        say(f"error: {error}")
        say("(the turn is forgotten; /reset starts anew)")
        return
    except KeyboardInterrupt:
        if not interactive:
            raise
        say("\n(stopped)")
        return
    write("\n")
    if result.finish_reason == "length":
        say("(cut at a limit)")
    if verbose:
        read = result.timings.prompt_n
        reused = result.prompt_tokens - read if read else 0  # -n 0 reads nothing
        say(f"reused   {reused} of {result.prompt_tokens} prompt tokens")
        say(report.statistics(result))


def _lines(interactive: bool) -> Iterator[str]:
    """Lines of stdin; at a terminal with a prompt, editing and history."""
    if not interactive:
        try:
            for line in sys.stdin:
                yield line.removesuffix("\n")
        except UnicodeDecodeError as error:
            raise PromptError(f"stdin cannot be read: {error}") from error
        return
    with suppress(ImportError):  # Windows has none
        import readline  # noqa: F401  # gives `input` editing and history
    while True:
        try:
            yield input("> ")
        except EOFError:
            say("")
            return
