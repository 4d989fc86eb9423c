"""How long drafts are made, where a shorter one is the beginning of a longer one and costs less.

A draft is settled before its tokens' confidence is known, so it goes as far as earlier drafts would
have been worth making: what one step says moves it part of the way.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftwalk.window.choice import survivals
from draftwalk.window.costs import Costs

_EVERY = 2  # looks, one of which says something: to look at all lengths takes time
_RATE = 0.33  # how much of the way that goes
_NOTICEABLE = 0.02  # of a plain step


class Reach:
    """The reach of one text's drafts.

    Args:
        most: tokens of a whole draft, where it begins.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._worth = float(most)
        self._steps = 0

    def following(self) -> Reach:
        """One for a new text, which begins as this one goes on."""
        new = Reach(self._most)
        new._worth = self._worth
        return new

    @property
    def limit(self) -> int:
        """Tokens to draft."""
        return max(1, min(self._most, round(self._worth)))

    def listens(self) -> bool:
        """Whether this step should say something."""
        self._steps += 1
        return self._steps % _EVERY == 1

    def tell(
        self, chances: Sequence[float], prices: Sequence[float], gaining: int, texts: int
    ) -> None:
        """How likely the tokens of a step's draft were to stand, and what that says of its length.

        Behind a draft's end every token is taken to be as likely as its last one.

        Args:
            chances: of each token of the draft, if all before it stand; at least one.
            prices: seconds of a step that drafts and verifies so many tokens for each text, one
                first, as many as a whole draft has last.
            gaining: texts that gain a token in any case.
            texts: that draft alike.
        """
        chain = survivals([*chances, *[chances[-1]] * (self._most - len(chances))])
        worth, best, gained = 1, 0.0, float(gaining)
        for tokens, survival in enumerate(chain, 1):
            gained += texts * survival
            if gained > best * prices[tokens - 1]:
                worth, best = tokens, gained / prices[tokens - 1]
        self._worth += _RATE * (worth - self._worth)


def saves(costs: Costs, blocks: int, short: int, whole: int) -> bool:
    """Whether drafts of `short` tokens cost noticeably less than those of `whole`.

    A whole draft's cost is seen first; a shorter one's is found out by trying.
    """
    drafts = costs.drafts
    longer, shorter = blocks * (whole + 1), blocks * (short + 1)
    if longer not in drafts:
        return False
    if shorter not in drafts:
        return True
    return drafts.at(longer) - drafts.at(shorter) > _NOTICEABLE * costs.of_pass(1, 0)
