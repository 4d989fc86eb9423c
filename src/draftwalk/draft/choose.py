"""How a drafter picks a token: by the same noise and filters as the target, so as to match it."""

from __future__ import annotations

from draftwalk.draft import DraftRequest
from draftwalk.errors import UserError
from draftwalk.verify.distribution import Support
from draftwalk.verify.verdict import Row, choose_rejection


def choose(row: Row, request: DraftRequest, q: list[Support], offset: int) -> int | None:
    """The drafter's token for the place `offset` after the request's history.

    Under the rejection rule, what it was drawn from is appended to q. `None` if the row cannot be
    used: there the draft ends, and the text goes on.
    """
    position = len(request.history) + offset
    if request.sampling.rule == "coupled":
        token = row.race(request.noise, position)
        return None if isinstance(token, UserError) else token
    support = row.support()
    if support.fault is not None:
        return None
    q.append(support)
    return choose_rejection(support, request.noise, position)
