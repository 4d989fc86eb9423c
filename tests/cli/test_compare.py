from draftwalk.cli.compare import agreement
from draftwalk.result import Result, Timings

TIMINGS = Timings(1, 1.0, 1, 1.0, 0, 0, 0)


def result(*tokens: int) -> Result:
    return Result("", tokens, "length", 1, None, TIMINGS, ())


def test_equal_answers_are_called_equal() -> None:
    assert agreement([result(1, 2)] * 3) == "equal, token for token, in all 3 runs"


def test_the_first_difference_is_told() -> None:
    same = result(1, 2, 3)
    assert agreement([same, result(1, 5, 3)]).startswith("DIFFERENT from token 2 on")
    assert agreement([same, same, result(1, 2)]).startswith("DIFFERENT from token 3 on")
    assert agreement([same, result(1, 2, 3, 4)]).startswith("DIFFERENT from token 4 on")


def test_under_rejection_another_text_is_no_rounding() -> None:
    told = agreement([result(1, 2), result(1, 3)], "rejection")
    assert "DIFFERENT from token 2 on" in told
    assert "as this rule allows" in told
