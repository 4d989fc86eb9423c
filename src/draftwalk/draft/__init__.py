"""Drafters: they propose a block of tokens, the target verifies.

A drafter listens to some of the target's layers (`taps`). `observe` gives it the features of the
rows that were kept; `propose` asks for the next tokens of several sequences in one pass. It may
propose anything: what is emitted is always the target's own choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from draftwalk.rows import Rows
from draftwalk.settings import Sampling
from draftwalk.state import State
from draftwalk.verify.distribution import Support
from draftwalk.verify.noise import Noise


@dataclass(frozen=True, slots=True)
class Draft:
    """K proposed tokens of one sequence.

    Attributes:
        tokens: the tokens, in order.
        q: what each was drawn from under the rejection rule, which alone asks for it, after the
            filters of the request; ids in it may be foreign to the target, which rejects them.
        confidence: the drafter's probability of the step taken, before temperature and filters.
    """

    tokens: tuple[int, ...] = ()
    q: tuple[Support, ...] = ()
    confidence: tuple[float, ...] = ()

    def cut(self, size: int) -> Draft:
        """The first `size` tokens."""
        return Draft(self.tokens[:size], self.q[:size], self.confidence[:size])


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """One sequence that wants a draft.

    Attributes:
        sequence: its slot.
        history: all its tokens; the last one is the anchor, which the target has not processed.
        limit: most tokens wanted, at least 1.
        sampling: how the request's tokens are chosen.
        noise: the request's noise, shared with the target under the coupled rule.
    """

    sequence: int
    history: Sequence[int]
    limit: int
    sampling: Sampling
    noise: Noise


class Drafter(Protocol):
    """Something that proposes tokens."""

    @property
    def taps(self) -> tuple[int, ...]:
        """Target layers whose outputs it wants, 0 for the first layer."""

    @property
    def block(self) -> int:
        """Rows of a block, the anchor included; 1 for a drafter that never proposes."""

    @property
    def shortens(self) -> bool:
        """Whether a draft with a lower limit is the beginning of a longer one, and costs less."""

    @property
    def context(self) -> int:
        """Places it can work in; a block must end inside."""

    @property
    def state(self) -> State:
        """Its memory; the loop opens, truncates and closes sequences in it."""

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        """A draft for each request, of at most its limit."""

    def observe(self, rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        """Learns the features [T, F * H] of the first `kept` rows of each span of a target pass."""
