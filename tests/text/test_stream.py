from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftwalk.errors import PromptError
from draftwalk.text.stream import TextStream

PIECES = (
    *(b"a", b"b", b"ab", b"aa", b"ba", b"", b" ", b"\n", b"x"),
    *(b"\xf0", b"\x9f", b"\xa6", b"\x99", b"\xc3", b"\xa9", b"\xe4\xb8", b"\xad", b"\xff", b"\xc0"),
    *("é".encode(), "🦙".encode(), "\ufffd".encode(), b"\x80\x80", b"\xed\xa0\x80"),
)
STOP_TEXT = st.text(alphabet="abx \né🦙\ufffd", min_size=1, max_size=5)


def streamed(
    tokens: Sequence[bytes], stops: Sequence[str] = (), strip_space: bool = False
) -> tuple[list[str], str | None, int]:
    """Pieces, the stop, and how many tokens were pushed."""
    stream = TextStream(lambda index: tokens[index], stops, strip_space)
    pieces, pushed = [], 0
    for index in range(len(tokens)):
        pushed += 1
        ended = stream.push(index)
        pieces.append(stream.take())
        if ended:
            break
    pieces.append(stream.finish())
    assert "".join(pieces) == stream.text
    return pieces, stream.stop, pushed


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Start of the stop that is complete first; of several the longest."""
    ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not ends:
        return None
    end, _, stop = min(ends)
    return end - len(stop), stop


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.booleans())
def test_pieces_join_to_what_decoding_at_once_gives(tokens: list[bytes], strip: bool) -> None:
    whole = b"".join(tokens)
    whole = whole.removeprefix(b" ") if strip else whole
    pieces, stop, _ = streamed(tokens, (), strip)
    assert "".join(pieces) == whole.decode("utf-8", errors="replace")
    assert stop is None


@given(st.binary(max_size=40), st.integers(1, 5))
def test_any_bytes_cut_anywhere(data: bytes, width: int) -> None:
    tokens = [data[i : i + width] for i in range(0, len(data), width)]
    assert "".join(streamed(tokens)[0]) == data.decode("utf-8", errors="replace")


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from(PIECES), max_size=25),
    st.lists(STOP_TEXT, min_size=1, max_size=4),
)
def test_the_text_ends_before_the_first_complete_stop(
    tokens: list[bytes], stops: list[str]
) -> None:
    whole = b"".join(tokens).decode("utf-8", errors="replace")
    pieces, stop, _ = streamed(tokens, stops)
    expected = first_stop(whole, stops)
    if expected is None:
        assert stop is None
        assert "".join(pieces) == whole
    else:
        start, name = expected
        assert stop == name
        assert "".join(pieces) == whole[:start]


@given(
    st.lists(st.sampled_from(PIECES), max_size=25),
    st.lists(STOP_TEXT, min_size=1, max_size=4),
)
def test_nothing_shown_is_ever_taken_back(tokens: list[bytes], stops: list[str]) -> None:
    """What is out after every token is a beginning of the final text, whatever follows."""
    pieces, _, _ = streamed(tokens, stops)
    final, shown = "".join(pieces), ""
    for piece in pieces:
        shown += piece
        assert final.startswith(shown)
        assert not any(stop in shown for stop in stops)


@given(
    st.lists(st.sampled_from("abx é"), max_size=20),
    st.lists(STOP_TEXT, min_size=1, max_size=3),
)
def test_as_much_is_shown_as_is_certain(letters: list[str], stops: list[str]) -> None:
    """What is held is the longest end of the text that begins a stop."""
    stream = TextStream(lambda index: letters[index].encode(), stops)
    for index in range(len(letters)):
        if stream.push(index):
            return
        text = "".join(letters[: index + 1])
        ends = [text[start:] for start in range(len(text) + 1)]
        held = next(end for end in ends if any(stop.startswith(end) for stop in stops))
        assert stream.text + held == text


def test_push_says_at_which_token_the_stop_is_complete() -> None:
    tokens = [b"one ", b"ST", b"O", b"P two", b" three"]
    pieces, stop, pushed = streamed(tokens, ["STOP"])
    assert (pieces, stop, pushed) == (["one ", "", "", "", ""], "STOP", 4)


def test_text_before_a_stop_in_the_same_token_is_kept() -> None:
    pieces, _, pushed = streamed([b"keep<end>drop", b"more"], ["<end>"])
    assert ("".join(pieces), pushed) == ("keep", 1)


def test_tokens_after_a_stop_change_nothing() -> None:
    tokens = [b"a#", b"b"]
    stream = TextStream(lambda index: tokens[index], ["#"])
    assert stream.push(0)
    assert stream.push(1)
    assert (stream.finish(), stream.finish()) == ("a", "")


@pytest.mark.parametrize(
    ("text", "stops", "kept"),
    [
        ("abx", ["abc", "abd"], "abx"),
        ("abcd", ["abcd", "bc"], "a"),
        ("abc", ["bc", "abc"], ""),
        ("aaab", ["aab"], "a"),
        ("abab", ["abab", "b"], "a"),
        ("ababac", ["abac"], "ab"),
    ],
)
def test_stops_that_share_letters(text: str, stops: list[str], kept: str) -> None:
    letters = [letter.encode() for letter in text]
    assert "".join(streamed(letters, stops)[0]) == kept
    assert "".join(streamed([text.encode()], stops)[0]) == kept


@pytest.mark.parametrize("length", [1, 3, 24, 25])
def test_short_answers_are_flushed(length: int) -> None:
    text = ("<|im_end|" * 3)[:length]
    pieces, stop, _ = streamed([bytes([byte]) for byte in text.encode()], ["<|im_end|>"])
    assert ("".join(pieces), stop) == (text, None)


def test_a_character_cut_off_at_the_end_is_replaced_once() -> None:
    pieces, _, _ = streamed([b"ok", b"\xf0", b"\x9f", b"\xa6"])
    assert pieces == ["ok", "", "", "", "\ufffd"]


def test_characters_of_several_tokens_come_whole() -> None:
    tokens = [bytes([byte]) for byte in "🦙é中".encode()]
    assert [piece for piece in streamed(tokens)[0] if piece] == ["🦙", "é", "中"]


def test_only_one_leading_space_is_stripped() -> None:
    assert "".join(streamed([b"", b"  two"], strip_space=True)[0]) == " two"
    assert "".join(streamed([b"no", b" one"], strip_space=True)[0]) == "no one"


@pytest.mark.parametrize("stops", [[""], ["x", ""], "abc", [b"x"]])
def test_unusable_stops_are_refused(stops: list[str]) -> None:
    with pytest.raises(PromptError, match=re.compile("stop string")):
        TextStream(lambda _: b"", stops)


def test_long_texts_take_linear_time() -> None:
    tokens = [b"a" * 50] * 4000
    pieces, _, _ = streamed(tokens, ["a" * 49 + "b", "aab"])
    assert sum(map(len, pieces)) == 200_000
