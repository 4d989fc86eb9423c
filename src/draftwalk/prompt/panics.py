"""Failures inside the tokenizers library, as errors of ours.

The library raises nothing more precise than `Exception`. Where its own code did not expect a
failure it panics, and that arrives as an exception that is none: it derives from `BaseException`,
as an interrupt does, and its class cannot be imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from draftwalk.errors import PromptError, UserError

_LONGEST_REASON = 200


@contextmanager
def library_failures(made: Callable[[str], UserError]) -> Iterator[None]:
    """Raises what `made` makes of the reason where the library fails or panics.

    Interrupts and exits pass.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        raise made(reason) from None


def not_encoded(reason: str) -> PromptError:
    """The error of a text that a GGUF file's tokenizer fails on."""
    return PromptError(f"the tokenizer cannot encode this text: {reason}")


def _is_panic(error: BaseException) -> bool:
    kind = type(error)
    return (kind.__module__, kind.__name__) == ("pyo3_runtime", "PanicException")
