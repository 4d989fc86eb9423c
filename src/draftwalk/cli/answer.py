"""Answering prompts: encoded as they are meant, one told step by step or many together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from draftwalk.cli.prompts import Prompt
from draftwalk.engine import Engine
from draftwalk.errors import PromptError, UserError
from draftwalk.prompt.messages import Message
from draftwalk.result import Result
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.step import Step


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for besides the prompt."""

    sampling: Sampling
    limits: Limits
    window: Window


@dataclass(frozen=True, slots=True)
class Format:
    """How prompts become token ids.

    Attributes:
        raw: texts are continued as they stand.
        system: the system message, for conversations that have none of their own.
        template_kwargs: further variables of the chat template.
    """

    raw: bool = False
    system: str | None = None
    template_kwargs: Mapping[str, object] | None = None

    def encode(self, engine: Engine, prompt: Prompt) -> list[int]:
        """The ids of a prompt: one user message, or a text to continue without a template."""
        plain = self.raw or (engine.template is None and not prompt.messages)
        if not plain:
            return engine.encode_chat(self.conversation(prompt), self.template_kwargs)
        if self.system is not None or self.template_kwargs:
            why = "--raw uses none" if self.raw else f"{engine.checkpoint.path.name} has none"
            raise PromptError(f"a system message and template arguments need a template; {why}")
        if prompt.messages:
            raise PromptError("a conversation needs the chat template, --raw uses none")
        return engine.encode_text(prompt.text)

    def conversation(self, prompt: Prompt) -> list[Message]:
        """The messages of a prompt, the system message first."""
        turns = prompt.messages or (("user", prompt.text),)
        if not turns[-1][1].strip():
            raise PromptError("the prompt is empty", "give some text")
        messages = [Message(role, content) for role, content in turns]
        if self.system is not None and messages[0].role != "system":
            messages.insert(0, Message("system", self.system))
        return messages


def answer_one(
    engine: Engine,
    ids: Sequence[int],
    asked: Asked,
    on_step: Callable[[Step], None] = lambda _: None,
) -> Result:
    """One answer, told step by step; what keeps it from starting is raised."""
    text = engine.start(ids, asked.sampling, asked.limits, asked.window)
    try:
        for step in engine.steps(text):
            on_step(step)
        return Result.of(text)
    finally:
        engine.release(text)


def answer_many(
    engine: Engine, prompts: Sequence[Prompt], form: Format, asked: Asked, parallel: int
) -> list[Result]:
    """An answer for every prompt, in their order; one that cannot be read is refused alone."""
    refused: dict[int, Result] = {}
    read: list[list[int]] = []
    for number, prompt in enumerate(prompts):
        try:
            read.append(form.encode(engine, prompt))
        except UserError as error:
            refused[number] = Result.refused(error)
    answers = iter(engine.complete(read, asked.sampling, asked.limits, asked.window, parallel))
    return [refused[n] if n in refused else next(answers) for n in range(len(prompts))]
