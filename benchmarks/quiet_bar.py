"""A progress bar that disturbs no measurement: drawn only between turns, by nobody's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress(
    total: int, console: Console, worth_a_line: Callable[[str], bool]
) -> Iterator[Callable[[str], None]]:
    """Yields what to tell after every turn.

    Args:
        total: turns.
        console: where it is shown.
        worth_a_line: what of it is also printed, to stay.
    """
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        auto_refresh=False,
    )
    with bar:
        task = bar.add_task("", total=total)

        def tick(what: str) -> None:
            bar.update(task, advance=1, description=what, refresh=True)
            if worth_a_line(what):
                bar.console.print(what, highlight=False)

        yield tick
