"""Finds stop strings in a text that arrives in pieces.

Every stop has an automaton (Knuth, Morris and Pratt) that knows how much of it the text ends with.
So what may still become a stop is known exactly, and what is found does not depend on how the text
was cut into pieces: the first place where some stop is complete, and of several stops that are
complete there the longest.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftwalk.errors import PromptError


class StopFinder:
    """Looks for several stop strings at once.

    Args:
        stops: the strings; none may be empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if isinstance(stops, str) or not all(isinstance(stop, str) for stop in stops):
            raise PromptError("stop strings must be given as a list of strings")
        if "" in stops:
            raise PromptError("a stop string is empty", "leave it out")
        self._stops = sorted(set(stops), key=len, reverse=True)
        self._fallbacks = [_fallbacks(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)

    @property
    def held(self) -> int:
        """Characters at the end of the text that are the beginning of a stop."""
        return max(self._matched, default=0)

    def feed(self, text: str) -> tuple[int, str] | None:
        """Reads on; the number of characters up to the end of a stop, and that stop.

        Nothing is read behind a stop, and nothing may be fed after it.
        """
        for position, letter in enumerate(text, start=1):
            for number, stop in enumerate(self._stops):
                matched = self._matched[number]
                while matched and stop[matched] != letter:
                    matched = self._fallbacks[number][matched]
                matched += stop[matched] == letter
                self._matched[number] = matched
                if matched == len(stop):
                    return position, stop
        return None


def _fallbacks(stop: str) -> list[int]:
    """For each count of matched characters, the next smaller count the same text also matches."""
    table = [0, 0]
    for letter in stop[1:]:
        matched = table[-1]
        while matched and stop[matched] != letter:
            matched = table[matched]
        table.append(matched + (stop[matched] == letter))
    return table
