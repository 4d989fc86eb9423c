"""How far long work is: a bar on a terminal, elsewhere a line now and then. On stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from draftwalk.cli.streams import say

_SECONDS = 15.0  # between lines where there is no terminal


class Meter:
    """Shows how far one piece of work is.

    Args:
        what: its name.
        bar: rich's.
    """

    def __init__(self, what: str, bar: Progress) -> None:
        self._what = what
        self._bar = bar
        self._task = bar.add_task("", total=None, text="")
        self._said = time.monotonic()

    def show(self, done: float, total: float, text: str = "") -> None:
        """Moves on.

        Args:
            done: of the work.
            total: all of it.
            text: what else there is to say.
        """
        self._bar.update(self._task, completed=done, total=total, text=text)
        now = time.monotonic()
        if not self._bar.console.is_terminal and now - self._said > _SECONDS:
            self._said = now
            say(f"{self._what}: {100 * done / max(total, 1e-9):.0f}% {text}".rstrip())


@contextmanager
def metering(what: str) -> Iterator[Meter]:
    """Yields a meter for a piece of work."""
    columns = (
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.percentage:.0f}% {task.fields[text]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True))
    if not bar.console.is_terminal:
        yield Meter(what, bar)
        return
    with bar:
        yield Meter(what, bar)
