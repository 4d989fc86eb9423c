"""The verify room: what the target's distribution is, and what a draft is worth against it.

Everything here is a pure function of logits, settings, tokens and noise; nothing knows a model, a
state or the loop. The losslessness of the whole package is decided in this room and proved in its
tests.
"""

from draftwalk.verify.distribution import Support, candidate_support, supports
from draftwalk.verify.logits import Logits
from draftwalk.verify.noise import Noise, Purpose
from draftwalk.verify.verdict import (
    Verdict,
    acceptance,
    choose_coupled,
    choose_rejection,
    coupled,
    rejection,
    residual,
)
from draftwalk.verify.window import verified

__all__ = [
    "Logits",
    "Noise",
    "Purpose",
    "Support",
    "Verdict",
    "acceptance",
    "candidate_support",
    "choose_coupled",
    "choose_rejection",
    "coupled",
    "rejection",
    "residual",
    "supports",
    "verified",
]
