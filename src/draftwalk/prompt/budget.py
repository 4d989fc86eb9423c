"""What one rendering of a template may use up: processor time, and the size of what it makes.

A template comes out of a model file, so it may be written to hang or to fill the memory. Time is
this thread's processor time: a busy machine does not make a good template fail.
"""

from __future__ import annotations

import time
from collections.abc import ItemsView, KeysView, ValuesView
from typing import Any

from jinja2.runtime import Context

MOST_BITS = 256  # of an integer
ENTRY = 32  # characters that an entry of a container, or any other value, counts for
_CONTAINERS = (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)


class LimitError(Exception):
    """A template has used up one of its limits."""


class Budget:
    """Counts what a rendering uses.

    Args:
        size: characters of text that it may make at once, and that it may print.
        seconds: processor time that it may take.
    """

    def __init__(self, size: int, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        self._printed = 0
        self._deadline = time.thread_time() + seconds

    def step(self) -> None:
        """Asked before every turn of a loop, every call, every operation that could take long."""
        if time.thread_time() > self._deadline:
            raise LimitError(f"it takes over {self._seconds:.1f} s")

    def room(self, size: int) -> None:
        """Asked before something of this size is made."""
        if size > self._size:
            raise LimitError(f"it makes a value of over {self._size} characters")

    def printed(self, size: int) -> None:
        """Asked before something of this size is printed."""
        self._printed += size
        if self._printed > self._size:
            raise LimitError(f"it prints over {self._size} characters")

    def weigh(self, value: object) -> int:
        """Size of a value with everything in it, as often as it is in it, in characters.

        A list that holds the same list twice is small in memory, but not when it is printed or
        compared, so shared parts count every time.
        """
        if isinstance(value, str):
            self.room(len(value))
            return len(value)
        size, stack = 0, [value]
        while stack:
            item = stack.pop()
            size += ENTRY
            if isinstance(item, str | bytes):
                size += len(item)
            elif isinstance(item, dict):
                stack.extend(item)
                stack.extend(item.values())
            elif isinstance(item, _CONTAINERS):
                stack.extend(item)
            if size + ENTRY * len(stack) > self._size:
                self.room(self._size + 1)
        return size


class BudgetContext(Context):
    """The variables of one rendering, and its budget."""

    budget: Budget

    def derived(self, locals: dict[str, Any] | None = None) -> BudgetContext:
        """A context that sees a loop's variables too; it is part of the same rendering."""
        context = super().derived(locals)
        assert isinstance(context, BudgetContext), "the environment makes only these"
        context.budget = self.budget
        return context


def budget_of(context: Context) -> Budget:
    """The budget of a rendering."""
    assert isinstance(context, BudgetContext), "the environment makes only these"
    return context.budget
