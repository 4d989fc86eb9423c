"""How a drafter picks a token: by the same noise and filters as the target, so as to match it."""

from __future__ import annotations

from draftwalk.draft import DraftRequest
from draftwalk.verify.distribution import Support
from draftwalk.verify.verdict import choose_coupled, choose_rejection


def choose(q: Support, request: DraftRequest, offset: int) -> int:
    """The drafter's token for the place `offset` after the request's history."""
    position = len(request.history) + offset
    if request.sampling.rule == "coupled":
        return choose_coupled(q, request.noise, position)
    return choose_rejection(q, request.noise, position)
