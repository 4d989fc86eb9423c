"""What errors are told in."""

import errno

import pytest

from draftwalk.errors import in_words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), "No such file or dir"),
        (OSError("of the program's own"), "of the program's own"),
        (ValueError("wrong"), "wrong"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_numbers_of_errors_are_nobody_s_business(error: Exception, words: str) -> None:
    assert in_words(error).startswith(words)
    assert "[" not in in_words(error)
