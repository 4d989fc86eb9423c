from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftwalk.errors import CheckpointError
from draftwalk.prompt.special import SHIELD, SpecialSplitter
from draftwalk.prompt.vocabulary import Kind

TOKENS = ["<a>", "<a><b>", "\n\n", "\n", "éé", "", "xyz"]
KINDS = {
    0: Kind.CONTROL,
    1: Kind.USER_DEFINED,
    2: Kind.USER_DEFINED,
    3: Kind.USER_DEFINED,
    4: Kind.UNKNOWN,
    5: Kind.CONTROL,
}
SPLITTER = SpecialSplitter(TOKENS, KINDS)


def test_the_longest_token_is_taken_before_any_other() -> None:
    assert SPLITTER.split("<a><b>", special=True) == [1]
    assert SPLITTER.split("<a><a><b>\n\n\n", special=True) == [0, 1, 2, 3]


def test_a_longer_token_further_right_comes_before_a_shorter_one_on_the_left() -> None:
    splitter = SpecialSplitter(["ab", "bcd"], {0: Kind.CONTROL, 1: Kind.CONTROL})
    assert splitter.split("abcd", special=True) == ["a", 1]


def test_length_is_counted_in_bytes() -> None:
    splitter = SpecialSplitter(["xyz", "zéé"], {0: Kind.CONTROL, 1: Kind.CONTROL})
    assert splitter.split("xyzéé", special=True) == ["xy", 1]


def test_control_tokens_are_text_unless_asked_for() -> None:
    assert SPLITTER.split("q<a>éé\n", special=False) == ["q<a>éé", 3]
    assert SPLITTER.split("q<a>éé\n", special=True) == ["q", 0, 4, 3]


def test_nothing_is_split_where_there_is_nothing() -> None:
    assert SPLITTER.split("", special=True) == []
    assert SPLITTER.split("xyz", special=True) == ["xyz"]
    assert SpecialSplitter([], {}).split("a", special=True) == ["a"]


@given(st.text(alphabet="<ab>\né", max_size=40), st.booleans())
def test_the_parts_are_the_whole(text: str, special: bool) -> None:
    parts = SPLITTER.split(text, special)
    assert "".join(TOKENS[part] if isinstance(part, int) else part for part in parts) == text
    assert "" not in parts


@given(st.text(alphabet="<ab>\né" + SHIELD, max_size=40))
def test_no_control_token_is_found_in_a_shielded_text(text: str) -> None:
    parts = SPLITTER.split(SPLITTER.shield(text), special=True)
    assert not {0, 4, 5} & set(parts)
    joined = "".join(TOKENS[part] if isinstance(part, int) else part for part in parts)
    assert joined == text.replace(SHIELD, "\ufffd")


def test_shielding_one_token_may_uncover_another() -> None:
    splitter = SpecialSplitter(["ab", "bcd"], {0: Kind.CONTROL, 1: Kind.CONTROL})
    assert splitter.split(splitter.shield("abcd"), special=True) == ["abcd"]


def test_a_template_around_a_shielded_text_keeps_its_tokens() -> None:
    assert SPLITTER.split("<a>" + SPLITTER.shield("x<a>y") + "<a>", True) == [0, "x<a>y", 0]


LETTERS = SpecialSplitter(["!", "!a", "a!b", "\U0001f999"], dict.fromkeys((0, 2, 3), Kind.CONTROL))


@given(st.text(alphabet="!ab\U0001f999\ufde0\ufde2" + SHIELD, max_size=20))
def test_control_tokens_of_one_character_are_shielded(text: str) -> None:
    shielded = LETTERS.shield(text)
    whole = text.replace(SHIELD, "\ufffd")
    assert LETTERS.split(shielded, special=True) == ([whole] if whole else [])
    assert LETTERS.split(f"!{shielded}!", special=True) == [0, *([whole] if whole else []), 0]


@pytest.mark.parametrize("token", [SHIELD, f"a{SHIELD}", "\ufde3"])
def test_special_tokens_that_look_like_shields_are_refused(token: str) -> None:
    with pytest.raises(CheckpointError, match=r"special token 0 is .* noncharacter"):
        SpecialSplitter([token], {0: Kind.CONTROL})
    assert SpecialSplitter([token], {}).split("a", special=True) == ["a"]
