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
    """A row of logits or scores with NaN, Inf or nothing finite; it ends its sequence only.

    Args:
        what: one line that names the row and what is wrong in it.
        hint: what to try next.
        row: index of the row among its sequence's rows of the pass. A verdict walks rows in order,
            so an error met there means that exactly `row` drafted tokens were accepted before it.
    """

    def __init__(self, what: str, hint: str = "", row: int = 0) -> None:
        super().__init__(what, hint)
        self.row = row


class RollbackError(Exception):
    """A state was asked to go back to where it cannot; raised, never silently ignored."""
