"""How many tokens of a finished draft are put to the target."""

from __future__ import annotations

from collections.abc import Sequence

from draftwalk.settings import Rule, Window


def verified(confidence: Sequence[float], window: Window, rule: Rule) -> int:
    """The length to which a draft is cut before it is verified.

    Args:
        confidence: the drafter's confidence in each drafted token.
        window: n_max, n_min and p_min.
        rule: under "coupled" the first token of low confidence goes too, as in llama.cpp. Under
            "rejection" it stays and ends the draft: whether a row is verified may depend only on
            tokens before the one it judges, else unlikely tokens would escape their test.
    """
    window.check(rule)
    length = len(confidence) if window.n_max is None else min(window.n_max, len(confidence))
    for i in range(length):
        if confidence[i] < window.p_min:
            length = i + 1 if rule == "rejection" else i
            break
    return length if length >= window.n_min else 0
