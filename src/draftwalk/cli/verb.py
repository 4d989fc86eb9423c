"""From a function with groups of options to a verb of typer, and from exceptions to exit codes."""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, get_type_hints

import typer

from draftwalk.cli.streams import say
from draftwalk.errors import UserError

FAILED = 1
INTERRUPTED = 130

_DEBUG = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """What typer calls for a verb.

    A parameter whose type is a dataclass stands for an option per field, so that verbs share groups
    of options. `--debug` is added. Errors become one line on stderr and an exit code.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type] = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            parameters += _options(groups[name])
        else:
            parameters.append(_keyword(name, hints[name], parameter.default))
    parameters.append(_keyword("debug", _DEBUG, False))

    def call(**given: object) -> None:  # typer calls by keyword, after the signature set below
        debug = bool(given.pop("debug"))
        arguments = {
            name: kind(**{field.name: given.pop(field.name) for field in _fields(kind)})
            for name, kind in groups.items()
        }
        with reported(debug):
            function(**arguments, **given)

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(call)["__signature__"] = inspect.Signature(parameters)
    return call


def _options(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    assert all(field.default is not MISSING for field in _fields(group)), "options have defaults"
    return [_keyword(field.name, hints[field.name], field.default) for field in _fields(group)]


def _fields(group: type) -> tuple[Field[object], ...]:
    assert is_dataclass(group)
    return fields(group)


def _keyword(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


@contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Turns what goes wrong into one line on stderr and an exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except KeyboardInterrupt:
            say("")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever read the answer has enough
            raise typer.Exit(FAILED) from None
        except UserError as error:
            _fail(str(error), debug)
        except (typer.BadParameter, typer.Exit):
            raise  # typer's own: a wrong option, an exit code
        except Exception as error:
            kind = type(error).__name__
            _fail(f"{kind}: {error} (unexpected; --debug shows where)", debug)


def _fail(text: str, debug: bool) -> None:
    if debug:
        say(traceback.format_exc().rstrip("\n"))
    say(f"error: {' '.join(text.split())}")
    raise typer.Exit(FAILED) from None


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    say(f"warning: {' '.join(str(message).split())}")
