"""Which drafted tokens stand, and the token after them: pure functions of distributions and noise.

Coupled (the default): target and drafter run the same race, the least E/p, with the same
exponential variates E. The target's winner has exactly the distribution p, and it is the text,
whatever was drafted; a draft stands if it names the winner. (The Gumbel-max trick, with one race
for both; known as drafter-invariant speculative sampling.)

Rejection (Leviathan et al. 2023; Chen et al. 2023): a token d drawn from q stands with probability
min(1, p(d) / q(d)); otherwise the token comes from the residual, max(p - q, 0) renormalised. The
text has the distribution p, and depends on what was drafted.

Rejection is exact only if q at a position was chosen without looking at that position's own noise,
and the draft was drawn from q by `choose_rejection`. That a later step drafts a position again with
the same number is sound: what was committed before that position never depended on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from draftwalk.errors import UserError
from draftwalk.verify.distribution import Support
from draftwalk.verify.noise import Noise, Purpose


class Row(Protocol):
    """The target's distribution at one row, worked out only as far as it is asked for."""

    def race(self, noise: Noise, position: int) -> int | UserError:
        """The winner of the race for this position, or why the row cannot be used."""

    def support(self) -> Support:
        """All of the distribution; with a fault if the row cannot be used."""


@dataclass(frozen=True, slots=True)
class Certain:
    """A row whose token is known: the greatest logit, if that is what the request asks for."""

    token: int

    def race(self, noise: Noise, position: int) -> int | UserError:
        """The token, whatever the noise is."""
        return self.token

    def support(self) -> Support:
        """All probability on the token."""
        return Support.certain(self.token)


@dataclass(frozen=True)
class Verdict:
    """The outcome of one step for one sequence.

    Args:
        accepted: how many drafted tokens stand.
        token: the next token: the correction of a rejected one, or the bonus after all of them;
            `None` where the row that chooses it cannot be used.
        fault: what is wrong with that row.
    """

    accepted: int
    token: int | None
    fault: UserError | None = None


def coupled(rows: Iterable[Row], draft: Sequence[int], noise: Noise, position: int) -> Verdict:
    """Follow the target's own choices as far as the draft names them.

    Args:
        rows: len(draft) + 1 of them, looked at up to the one that ends the step; row i chooses the
            token at `position + i`.
        draft: the drafted tokens.
        noise: the request's noise.
        position: absolute position of the first token chosen here, one past the anchor's.
    """
    for i, row in enumerate(rows):
        token = row.race(noise, position + i)
        if isinstance(token, UserError):
            return Verdict(i, None, token)
        if i == len(draft) or token != draft[i]:
            return Verdict(i, token)
    raise AssertionError("the last row always ends a step")


def rejection(
    rows: Iterable[Row],
    draft: Sequence[int],
    q: Sequence[Support],
    noise: Noise,
    position: int,
) -> Verdict:
    """Accept each drafted token with the odds of p against q, up to the first that fails.

    Args:
        rows: as for `coupled`.
        draft: the drafted tokens, draft[i] drawn from q[i].
        q: the drafter's distributions; a further one if one more token was drafted that the target
            cannot read: it is rejected, so the last row's token comes from the residual.
        noise: the request's noise.
        position: as for `coupled`.
    """
    assert len(q) in (len(draft), len(draft) + 1)
    for i, row in enumerate(rows):
        p = row.support()
        if p.fault is not None:
            return Verdict(i, None, p.fault)
        if i == len(draft):
            # Residual or bonus: only one of them is drawn at a position in a step.
            p = p if len(q) == i else residual(p, q[i])
            return Verdict(i, _draw(p, noise, position + i, Purpose.RESIDUAL))
        u = noise.uniform(position + i, Purpose.ACCEPT)
        odds = q[i].probability(draft[i])
        assert odds > 0, "the drafted token cannot have been drawn from q"
        if not u * odds < p.probability(draft[i]):
            return Verdict(i, _draw(residual(p, q[i]), noise, position + i, Purpose.RESIDUAL))
    raise AssertionError("the last row always ends a step")


def choose_coupled(row: Row, noise: Noise, position: int) -> int:
    """The winner of the race for this position in a row that can be used."""
    token = row.race(noise, position)
    assert not isinstance(token, UserError), "the row cannot be used"
    return token


def choose_rejection(q: Support, noise: Noise, position: int) -> int:
    """The drafter's draw under the rejection rule."""
    return _draw(q, noise, position, Purpose.DRAFT)


def acceptance(p: Support, q: Support, drafted: int) -> float:
    """The probability that a token drawn from q stands under the rejection rule."""
    return min(1.0, p.probability(drafted) / q.probability(drafted))


def residual(p: Support, q: Support) -> Support:
    """What a rejected draft is replaced from: max(p - q, 0) renormalised, or p where that is 0."""
    ids, drafted = p.ids.numpy(), q.ids.numpy()
    left = p.p.numpy().copy()
    at = np.minimum(ids.searchsorted(drafted), len(left) - 1)
    shared = ids[at] == drafted
    left[at[shared]] -= q.p.numpy()[shared]
    positive = left > 0
    if not positive.any():
        return p
    left = left[positive]
    return Support(torch.from_numpy(ids[positive]), torch.from_numpy(left / left.sum()))


def _draw(support: Support, noise: Noise, position: int, purpose: Purpose) -> int:
    """Inverse of the distribution function over ascending ids: one number per draw is enough.

    (A race as in the coupled rule would need one per id, and there is nobody to be coupled with.)
    """
    mass = support.p.numpy().cumsum()
    u = noise.uniform(position, purpose)
    i = int(mass.searchsorted(u * mass[-1], side="right"))
    return int(support.ids.numpy()[min(i, len(mass) - 1)])
