"""Errors a user can cause, each one clear line with what to try next.

Our own mistakes are asserts; everything a file, a flag or a prompt can get wrong is a `UserError`.
"""


class UserError(Exception):
    """Something the user can put right.

    Args:
        what: one line that names the thing that is wrong and where.
        hint: what to try next; empty when the first line says it already.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} ({hint})" if hint else what)
        self.what = what
        self.hint = hint


class CheckpointError(UserError):
    """A model file that is damaged, inconsistent, or of a kind that is not implemented."""


class PairingError(UserError):
    """A target and a drafter that do not belong together."""


class PromptError(UserError):
    """A prompt, template or sampling setting that cannot be used."""


class NumericalError(UserError):
    """A row of logits or scores with NaN, Inf or nothing finite; it ends its sequence only."""


class RollbackError(Exception):
    """A state was asked to go back to where it cannot; raised, never silently ignored."""


def in_words(error: BaseException) -> str:
    """What went wrong in the system's words, without its number: "No such file or directory"."""
    words = error.strerror if isinstance(error, OSError) else None
    return words or str(error) or type(error).__name__
