"""Messages of a conversation, checked and made plain before a template sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from draftwalk.errors import PromptError

Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]
Shield = Callable[[str], str]
_DEEPEST = 64


@dataclass(frozen=True)
class Message:
    """One turn.

    Args:
        role: who speaks; the usual ones are system, user and assistant.
        content: what is said.
    """

    role: str
    content: str


def plain_messages(
    messages: Sequence[Message | Mapping[str, object]], shield: Shield = str
) -> list[Plain]:
    """The messages as the lists and dictionaries that templates know.

    Args:
        messages: what was said.
        shield: goes over every text in them, roles and keys excepted.
    """
    if isinstance(messages, str | bytes | Mapping | Message):
        raise PromptError("messages must be a list of messages")
    if not messages:
        raise PromptError("there are no messages", "give at least one")
    return [_plain_message(number, message, shield) for number, message in enumerate(messages)]


def _plain_message(number: int, message: Message | Mapping[str, object], shield: Shield) -> Plain:
    name = f"message {number}"
    if isinstance(message, Message):
        message = {"role": message.role, "content": message.content}
    if not isinstance(message, Mapping):
        raise PromptError(f"{name} must have a role and a content, but is {message!r}")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise PromptError(f"{name} needs a role such as 'user', not {role!r}")
    plain = plain_value(name, message, shield)
    assert isinstance(plain, dict), "made of a mapping"
    content = _content(name, message)
    return plain | {"role": role, "content": None if content is None else shield(content)}


def _content(name: str, message: Mapping[str, object]) -> str | None:
    """The text; parts of a multi-part content are lines. Only a tool call may come without text."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None:
        if message.get("tool_calls"):
            return None
        raise PromptError(f"{name} has no content")
    if not isinstance(content, list | tuple) or not content:
        raise PromptError(f"the content of {name} must be a text, not {type(content).__name__}")
    return "\n".join(_part(name, part) for part in content)


def _part(name: str, part: object) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    text = part.get("text") if isinstance(part, Mapping) else None
    if kind != "text" or not isinstance(text, str):
        raise PromptError(f"{name} has a part that is not text: type {kind!r}")
    return text


def plain_value(name: str, value: object, shield: Shield = str, depth: int = 0) -> Plain:
    """A value as JSON could have brought it, its texts shielded; anything else is refused."""
    if depth > _DEEPEST:
        raise PromptError(f"{name} is nested deeper than {_DEEPEST} levels")
    if isinstance(value, str):
        return shield(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [plain_value(name, item, shield, depth + 1) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise PromptError(f"{name} has a key that is not a string")
        return {key: plain_value(name, item, shield, depth + 1) for key, item in value.items()}
    raise PromptError(f"{name} holds a {type(value).__name__}, which no template can use")
