"""How many tokens to verify: the most expected tokens per second, by looking at every number.

A pass of many rows may cost no more than one of fewer, or a good deal more than the next smaller
one: costs are stairs, so a search that stops where it goes down for the first time stops too early.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter, mul

_FREE = 16  # rows of a pass up to which every number is tried


def survivals(chances: Sequence[float]) -> list[float]:
    """For each token of a draft, that it and all before it stand."""
    return list(accumulate(chances, mul))


def best_windows(
    chains: Sequence[Sequence[float]],
    contexts: Sequence[int],
    certain: int,
    gaining: int,
    prices: Sequence[float],
    place: float = 0.0,
) -> tuple[list[int], float]:
    """The window of each text, such that all of them gain the most tokens per second together.

    The likeliest tokens go first. Since survival never rises along a draft, what is taken of each
    draft is its beginning.

    Args:
        chains: survival of each text's drafted tokens.
        contexts: places before each text's draft.
        certain: rows of the pass that are in it in any case.
        gaining: texts that gain a token in any case.
        prices: seconds of the step by how many drafted tokens are verified, none first.
        place: seconds more for each place that a drafted token sees.

    Returns:
        The windows, and the price of the step with them.
    """
    ranked = [(chance, n) for n, chain in enumerate(chains) for chance in chain]
    if len(chains) > 1:
        ranked.sort(key=itemgetter(0), reverse=True)
    tokens, places = float(gaining), 0
    paid = prices[0]
    best, taken, last = tokens / paid, 0, len(ranked)
    always = _FREE - certain
    for rows, (chance, n) in enumerate(ranked, 1):
        tokens += chance
        places += contexts[n]
        if always < rows < last and not is_tried(certain + rows):
            continue
        cost = prices[rows] + place * places
        if tokens > best * cost:
            best, taken, paid = tokens / cost, rows, cost
    windows = [0] * len(chains)
    for _, n in ranked[:taken]:
        windows[n] += 1
    return windows, paid


def is_tried(rows: int) -> bool:
    """Whether passes of so many rows are made where others would do.

    A back end may have to prepare itself for every size it meets, and each size has a cost to be
    learned; the larger a pass, the less a few rows matter.
    """
    if rows <= _FREE:
        return True
    return rows % 4 == 0 if rows <= 4 * _FREE else rows % 8 == 0
