from __future__ import annotations

import pytest

from draftwalk.errors import PromptError
from draftwalk.prompt.messages import Message, plain_messages, plain_value


def test_messages_and_mappings_are_the_same_to_a_template() -> None:
    made = plain_messages([Message("user", "a"), {"role": "user", "content": "a"}])
    assert made == [{"role": "user", "content": "a"}] * 2


def test_other_fields_are_kept() -> None:
    message = {"role": "assistant", "content": "a", "reasoning_content": "b", "n": [1, None, 2.5]}
    assert plain_messages([message]) == [message]


def test_text_parts_are_lines() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert plain_messages([{"role": "user", "content": parts}]) == [
        {"role": "user", "content": "a\nb"}
    ]


def test_a_tool_call_may_come_without_text() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    assert plain_messages([call]) == [call]


def test_the_caller_keeps_its_own_messages() -> None:
    given: dict[str, object] = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    plain_messages([given])
    assert given["content"] == [{"type": "text", "text": "a"}]


def test_every_text_but_roles_and_keys_is_shielded() -> None:
    call = {"role": "user", "content": "a", "calls": [{"b": "c"}]}
    made = plain_messages([call], str.upper)
    assert made == [{"role": "user", "content": "A", "calls": [{"b": "C"}]}]
    assert plain_messages([Message("user", "a")], str.upper) == [{"role": "user", "content": "A"}]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "there are no messages"),
        ("hello", "messages must be a list of messages"),
        (Message("user", "a"), "messages must be a list of messages"),
        ({"role": "user", "content": "a"}, "messages must be a list of messages"),
        (["hello"], "message 0 must have a role and a content, but is 'hello'"),
        ([{"content": "a"}], "message 0 needs a role such as 'user', not None"),
        ([{"role": "", "content": "a"}], "message 0 needs a role"),
        ([{"role": 3, "content": "a"}], "message 0 needs a role such as 'user', not 3"),
        ([Message("user", "a"), {"role": "user"}], "message 1 has no content"),
        ([{"role": "user", "content": None}], "message 0 has no content"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], "message 0 has no content"),
        ([{"role": "user", "content": 5}], "the content of message 0 must be a text, not int"),
        ([{"role": "user", "content": []}], "the content of message 0 must be a text, not list"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}],
            "message 0 has a part that is not text: type 'image_url'",
        ),
        ([{"role": "user", "content": ["a"]}], "message 0 has a part that is not text"),
        ([{"role": "user", "content": "a", "x": {1}}], "message 0 holds a set"),
        ([{"role": "user", "content": "a", 5: "x"}], "message 0 has a key that is not a string"),
    ],
)
def test_anything_else_is_refused(messages: list[dict[str, object]], message: str) -> None:
    with pytest.raises(PromptError, match=message):
        plain_messages(messages)


def test_values_are_not_nested_without_end() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(PromptError, match="tools is nested deeper than 64 levels"):
        plain_value("tools", value)
