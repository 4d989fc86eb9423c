"""Prompts as users give them: an argument, what is piped in, or a file of many."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from draftwalk.cli import json_text
from draftwalk.errors import PromptError, in_words

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: a text, or a conversation of (role, content)."""

    text: str = ""
    messages: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """Its beginning on one line, to tell answers apart."""
        line = " ".join((self.messages[-1][1] if self.messages else self.text).split())
        return line if len(line) <= 72 else f"{line[:69]}..."


def read_prompt(argument: str | None) -> Prompt:
    """The prompt of `draftwalk run`; without an argument, or for `-`, what is piped in.

    With an argument stdin is left alone: a script's own input is not its prompt.
    """
    if argument is not None and argument != STDIN:
        return Prompt(argument)
    if argument is None and sys.stdin.isatty():
        raise typer.BadParameter("give a prompt, pipe one in, or use --prompts FILE")
    try:
        return Prompt(sys.stdin.read().removesuffix("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"the prompt cannot be read from stdin: {in_words(error)}") from error


def read_prompts(file: Path) -> list[Prompt]:
    """The prompts of a file, `-` for stdin.

    A file whose first line begins with `{` is JSON lines, each with `prompt` (a text), `turns` (the
    first one is asked) or `messages` (a conversation). Any other file has one prompt a line. Empty
    lines are passed over.
    """
    try:
        text = sys.stdin.read() if str(file) == STDIN else file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{file} cannot be read: {in_words(error)}") from error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise PromptError(f"{file} has no prompts in it")
    if not lines[0][1].lstrip().startswith("{"):
        return [Prompt(line.removesuffix("\r")) for _, line in lines]
    return [_of_json(line, f"{file} line {number}") for number, line in lines]


def _of_json(line: str, where: str) -> Prompt:
    try:
        entry = json_text.parse(line)
    except ValueError as error:
        raise PromptError(f"{where} is no JSON: {error}") from None
    match entry:
        case {"messages": [*messages]} if messages:
            return Prompt(messages=_messages(messages, where))
        case {"prompt": str(text)} | {"turns": [str(text), *_]}:
            return Prompt(text)
    raise PromptError(f"{where} has neither prompt, turns nor messages", "one of them is needed")


def _messages(messages: Sequence[object], where: str) -> tuple[tuple[str, str], ...]:
    found = []
    for message in messages:
        match message:
            case {"role": str(role), "content": str(content)}:
                found.append((role, content))
            case _:
                raise PromptError(f"{where} has a message without the texts role and content")
    return tuple(found)
