"""How much of a block a text drafts, where a shorter draft costs less.

A draft is settled before its tokens' confidence is known, so it goes as far as earlier drafts would
have been worth making: what one step says moves it part of the way.
"""

from __future__ import annotations

_FURTHER, _BACK = 0.3, 0.2  # how much of the way one step goes


class Reach:
    """The reach of one text's drafts.

    Args:
        most: tokens of a whole draft, where it begins.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._worth = float(most)

    def following(self) -> Reach:
        """One for a new text, which begins as this one goes on."""
        new = Reach(self._most)
        new._worth = self._worth
        return new

    @property
    def limit(self) -> int:
        """Tokens to draft."""
        return max(1, min(self._most, round(self._worth)))

    def tell(self, worth: int) -> None:
        """How many tokens a step's draft should have had, by what is known of it now."""
        rate = _FURTHER if worth > self._worth else _BACK
        self._worth += rate * (worth - self._worth)
