"""The window under the rejection rule: from what became of earlier drafts of the same text.

Under that rule whether a row is verified may depend only on tokens before it, and it changes which
text a seed gives. So nothing is looked at but which tokens of this text's earlier drafts stood, and
steps are priced by constants: the window of a draft is settled before the draft is made, and a seed
gives the same text on every machine and in any company.
"""

from __future__ import annotations

from draftwalk.window.choice import best_windows, survivals
from draftwalk.window.switch import Switch

# In passes of one row: a draft, and a row more.
_DRAFT, _ROW = 0.3, 0.15
_STOOD, _AT_RISK = 1.4, 2.0  # what is believed of every position before anything was seen
_KEPT = 0.97  # of what was seen, by each further outcome
_EVERY = 64  # drafts: one whole block among them


class History:
    """What became of a text's drafts.

    Args:
        positions: tokens of a whole draft.
    """

    def __init__(self, positions: int) -> None:
        self._stood = [_STOOD] * positions
        self._at_risk = [_AT_RISK] * positions
        self._prices = [1.0 + _DRAFT + _ROW * rows for rows in range(positions + 1)]
        self._switch = Switch()
        self._drafts = 0

    @property
    def on(self) -> bool:
        """Whether it drafts, but for a probe now and then."""
        return self._switch.on

    def limit(self, room: int) -> int:
        """Tokens to draft and verify in this step, at most `room`."""
        probing = not self._switch.on
        if not self._switch.asks():
            return 0
        pairs = zip(self._stood[:room], self._at_risk, strict=False)
        chain = survivals([stood / at_risk for stood, at_risk in pairs])
        (window,), price = best_windows([chain], [0], 1, 1, self._prices)
        self._switch.tell(1.0 + sum(chain[:window]), price)
        self._drafts += 1
        if self._drafts % _EVERY == 0:
            return room
        return max(window, 1) if probing else window

    def learn(self, verified: int, accepted: int) -> None:
        """Takes in what became of a draft; only tokens behind which all others stood count."""
        for n in range(min(verified, accepted + 1)):
            self._stood[n] = _KEPT * self._stood[n] + (n < accepted)
            self._at_risk[n] = _KEPT * self._at_risk[n] + 1.0
