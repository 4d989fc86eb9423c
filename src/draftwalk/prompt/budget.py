"""What one rendering of a template may use up: steps, processor time, and size of what it makes.

A template comes out of a model file, so it may be written to hang or to fill the memory. Time is
this thread's processor time: a busy machine does not make a good template fail.
"""

from __future__ import annotations

import time
from collections.abc import ItemsView, KeysView, ValuesView

from jinja2.runtime import Context

MOST_STEPS = 1_000_000
MOST_SECONDS = 1.0
MOST_BITS = 4096  # of an integer
_CONTAINERS = (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)


class LimitError(Exception):
    """A template has used up one of its limits."""


class Budget:
    """Counts what a rendering uses.

    Args:
        size: characters of text, or entries of a container, that it may make at once or print.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._printed = 0
        self._steps = 0
        self._deadline = time.thread_time() + MOST_SECONDS

    def step(self) -> None:
        """One turn of a loop, one call, one operation."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise LimitError(f"takes over {MOST_STEPS} steps")
        if time.thread_time() > self._deadline:
            raise LimitError(f"takes over {MOST_SECONDS:g} s")

    def room(self, size: int) -> None:
        """Asked before something of this size is made."""
        if size > self._size:
            raise LimitError(f"makes a value of over {self._size} characters")

    def printed(self, size: int) -> None:
        """Asked before something of this size is printed."""
        self._printed += size
        if self._printed > self._size:
            raise LimitError(f"prints over {self._size} characters")

    def weigh(self, value: object) -> int:
        """Size of a value with everything in it, as often as it is in it, in characters.

        A list that holds the same list twice is small in memory, but not when it is printed or
        compared, so shared parts count every time.
        """
        if isinstance(value, str):
            self.room(len(value))
            return len(value)
        total, stack = 0, [value]
        while stack:
            item = stack.pop()
            total += 1
            if isinstance(item, str | bytes):
                total += len(item)
            elif isinstance(item, dict):
                stack.extend(item)
                stack.extend(item.values())
            elif isinstance(item, _CONTAINERS):
                stack.extend(item)
            elif isinstance(item, int):
                total += item.bit_length() // 3
            if total + len(stack) > self._size:
                self.room(total + len(stack))
        return total


class BudgetContext(Context):
    """The variables of one rendering, and its budget."""

    budget: Budget


def budget_of(context: Context) -> Budget:
    """The budget of a rendering."""
    assert isinstance(context, BudgetContext), "the environment makes only these"
    return context.budget
