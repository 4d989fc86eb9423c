import warnings
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from draftwalk.cli.verb import verb
from draftwalk.errors import CheckpointError


def outcome(function: Callable[[], None], *arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(verb(function))
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def user_error() -> None:
    raise CheckpointError("x.gguf:\n is damaged", "fetch it again")


def own_error() -> None:
    raise RuntimeError("what is\nthis")


def test_a_user_error_is_one_line() -> None:
    assert outcome(user_error) == (1, "", "error: x.gguf: is damaged (fetch it again)\n")


def test_an_unexpected_error_is_one_line_too() -> None:
    code, out, err = outcome(own_error)
    assert (code, out) == (1, "")
    assert err == "error: RuntimeError: what is this (unexpected; --debug shows where)\n"


@pytest.mark.parametrize("function", [user_error, own_error])
def test_debug_shows_the_place(function: Callable[[], None]) -> None:
    code, out, err = outcome(function, "--debug")
    assert (code, out) == (1, "")
    assert "Traceback" in err
    assert function.__name__ in err
    assert err.splitlines()[-1].startswith("error: ")


def test_warnings_are_lines() -> None:
    def warned() -> None:
        warnings.warn("a is\nclamped to 7", stacklevel=1)

    assert outcome(warned) == (0, "", "warning: a is clamped to 7\n")


def test_an_interrupt_ends_the_line() -> None:
    def interrupted() -> None:
        typer.echo("half a li", nl=False)
        raise KeyboardInterrupt

    assert outcome(interrupted) == (130, "half a li", "\n")


def test_exit_codes_and_usage_errors_pass() -> None:
    def failing() -> None:
        raise typer.Exit(1)

    def misused() -> None:
        raise typer.BadParameter("not both")

    assert outcome(failing) == (1, "", "")
    code, out, err = outcome(misused)
    assert (code, out) == (2, "")
    assert "not both" in err
