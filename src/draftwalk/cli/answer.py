"""Answering prompts: encoded as they are meant, taken on some at a time, told step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from draftwalk.cli.prompts import Prompt
from draftwalk.engine import Engine
from draftwalk.errors import PromptError, UserError
from draftwalk.loop import Step, StepTimes
from draftwalk.prompt.messages import Message
from draftwalk.result import Result
from draftwalk.sequence import Sequence as Text
from draftwalk.settings import Limits, Sampling, Window


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


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of prompts that were answered together.

    Attributes:
        outcomes: in the prompts' order; an error where a prompt could not be taken on.
        times: of every step of the loop, each once.
    """

    outcomes: tuple[Result | UserError, ...]
    times: tuple[StepTimes, ...]

    @property
    def results(self) -> list[Result]:
        """The answers there are."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Result)]


def answer(
    engine: Engine,
    prompts: Sequence[Callable[[], Sequence[int]]],
    asked: Asked,
    parallel: int = 1,
    on_step: Callable[[Step], None] = lambda _: None,
) -> Batch:
    """Answers prompts, at most `parallel` at a time; one that fails does not harm the others.

    Args:
        engine: whose answers.
        prompts: each gives its ids when its turn comes, or raises a `UserError`.
        asked: the same for all.
        parallel: prompts in one pass.
        on_step: told of every step of every answer.
    """
    waiting = deque(enumerate(prompts))
    outcomes: dict[int, Result | UserError] = {}
    running: dict[int, tuple[Text, list[Step]]] = {}
    times: list[StepTimes] = []
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                number, encode = waiting.popleft()
                try:
                    text = engine.start(encode(), asked.sampling, asked.limits, asked.window)
                except UserError as error:
                    outcomes[number] = error
                else:
                    running[number] = text, []
            steps = engine.loop.step() if engine.loop.busy else []
            times += [step.times for step in steps[:1]]
            own = {id(text): kept for text, kept in running.values()}
            for step in steps:
                own[id(step.sequence)].append(step)
                on_step(step)
            for number in [n for n, (text, _) in running.items() if text.finish_reason is not None]:
                text, kept = running.pop(number)
                outcomes[number] = Result.of(text, kept)
                engine.loop.release(text)
    finally:
        for text, _ in running.values():
            engine.loop.release(text)
    return Batch(tuple(outcomes[n] for n in range(len(prompts))), tuple(times))
