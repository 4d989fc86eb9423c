"""Chat templates: messages to one text, by the Jinja source that a model's files carry.

The source is untrusted, so it runs in a sandbox with limits (see `sandbox.py`). A template that
cannot be used is an error of the request that needs it, in one line; there is no other template
to fall back to, because a text in the wrong format gives answers that are only slightly wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError

from draftwalk.errors import PromptError
from draftwalk.prompt.budget import Budget, BudgetContext, LimitError
from draftwalk.prompt.messages import Message, Plain, Shield, plain_messages, plain_value
from draftwalk.prompt.rewrite import with_checks
from draftwalk.prompt.sandbox import Sandbox
from draftwalk.prompt.template_filters import filters, originals

_LONGEST_SOURCE = 1 << 16  # characters; the longest template known has 30 thousand
_MOST_NODES = 10_000  # of the parsed template, to bound the time of compiling it
# What a rendering may use whatever it is given, and more for each character that it is given: a
# long conversation passes through several macros.
_LEAST_SIZE = 2 << 20
_SIZE_PER_CHARACTER = 8
_LEAST_SECONDS = 0.5
_SECONDS_PER_CHARACTER = 1e-6
_OURS = ("messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token")


class RefusalError(TemplateError):
    """A template says itself that it cannot take these messages."""


class ChatTemplate:
    """Turns messages into the text that a model was trained to see.

    The source is compiled when it is first used: a broken template does not matter to who never
    chats.

    Args:
        source: the template.
        bos: how the BOS token is written; empty where there is none.
        eos: how the EOS token is written.
    """

    def __init__(self, source: str, bos: str = "", eos: str = "") -> None:
        self.source = source
        self._bos = bos
        self._eos = eos

    def render(
        self,
        messages: Sequence[Message | Mapping[str, object]],
        add_generation_prompt: bool = True,
        template_kwargs: Mapping[str, object] | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        shield: Shield = str,
    ) -> str:
        """The text of a conversation.

        Args:
            messages: what was said, as `Message` or as mappings with role and content.
            add_generation_prompt: the text ends where the assistant's answer begins.
            template_kwargs: further variables of the template, such as `enable_thinking`.
            tools: functions that the model may call, as JSON schemas.
            shield: goes over every text of messages and tools before they are rendered; with
                `Tokenizer.shield` special tokens that a user types stay text.
        """
        values = _variables(template_kwargs or {})
        values["messages"] = plain_messages(messages, shield)
        values["tools"] = None if tools is None else plain_value("tools", tools, shield)
        values["documents"] = None
        values["add_generation_prompt"] = add_generation_prompt
        values["bos_token"] = self._bos
        values["eos_token"] = self._eos
        template = self._template
        try:
            return "".join(template.root_render_func(_context(template, values)))
        except Exception as error:
            _fail(template, error)

    @cached_property
    def _template(self) -> Template:
        if len(self.source) > _LONGEST_SOURCE:
            raise PromptError(f"the chat template has over {_LONGEST_SOURCE} characters")
        environment = new_sandbox()
        try:
            tree = environment.parse(self.source)
            if sum(1 for _ in tree.find_all(nodes.Node)) > _MOST_NODES:
                raise PromptError(f"the chat template has over {_MOST_NODES} elements")
            code = environment.compile(with_checks(environment, tree))
        except TemplateSyntaxError as error:
            reason = _one_line(error.message or "")
            raise PromptError(
                f"the chat template does not parse: {reason} (line {error.lineno})"
            ) from None
        except (RecursionError, MemoryError, SyntaxError):
            raise PromptError("the chat template is nested too deeply") from None
        return Template.from_code(environment, code, environment.globals)


def new_sandbox() -> Sandbox:
    """The environment of one template."""
    functions: dict[str, Callable[..., object]] = {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
    }
    plain = Sandbox(originals(), {})
    return Sandbox(filters(plain), functions)


def _variables(template_kwargs: Mapping[str, object]) -> dict[str, Plain]:
    for name in template_kwargs:
        if name in _OURS:
            raise PromptError(f"chat template arguments cannot set {name!r}")
    return {name: plain_value(name, value) for name, value in template_kwargs.items()}


def _context(template: Template, values: dict[str, Plain]) -> BudgetContext:
    """A context with a budget that grows with what the template was given."""
    context = template.new_context(values)
    assert isinstance(context, BudgetContext), "the sandbox makes only these"
    given = Budget(sys.maxsize, 0).weigh(values)
    context.budget = Budget(
        size=_LEAST_SIZE + _SIZE_PER_CHARACTER * given,
        seconds=_LEAST_SECONDS + _SECONDS_PER_CHARACTER * given,
    )
    return context


def _raise_exception(message: object = "") -> NoReturn:
    raise RefusalError(str(message))


def _strftime_now(pattern: str) -> str:
    if len(pattern) > 200 or any(letter.isdigit() for letter in pattern):
        raise LimitError("it asks for the time in an unusual format")
    return datetime.now().strftime(pattern)


def _fail(template: Template, error: Exception) -> NoReturn:
    """One line for everything that can go wrong in a template."""
    place = _place(template, error.__traceback__)
    if isinstance(error, RefusalError):
        what = f"refuses these messages: {_one_line(str(error))}"
    elif isinstance(error, LimitError | SecurityError):
        what = f"was stopped: {_one_line(str(error))}{place}"
    elif isinstance(error, RecursionError):
        what = f"was stopped: it calls itself too deeply{place}"
    else:
        what = f"failed: {type(error).__name__}: {_one_line(str(error))}{place}"
    raise PromptError(f"the chat template {what}") from None


def _place(template: Template, trace: TracebackType | None) -> str:
    """The innermost line of the template that was being executed."""
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {line})" if line else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
