"""How many drafted tokens to verify, so that a text gains the most tokens per second.

`Windows` decides it step by step from what passes cost (`costs.py`), how likely drafted tokens are
to stand (`survival.py`), a search over all windows (`choice.py`) and a switch that turns drafting
off where it does not pay (`switch.py`). `fit.py` makes the calibration that a drafter carries.
Plain numbers all through: a decision takes some ten microseconds.
"""

from draftwalk.window.calibration import Calibration
from draftwalk.window.costs import Measured, Spent
from draftwalk.window.windows import Certain, Offer, Windows

__all__ = ["Calibration", "Certain", "Measured", "Offer", "Spent", "Windows"]
