"""The progress bar of a download, on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

from draftwalk.cli.streams import say
from draftwalk.fetch import Progress


@contextmanager
def downloading() -> Iterator[Progress]:
    """Yields what to tell a download's progress; nothing is shown before the first word.

    Without a terminal a line for each says that there is a download, and nothing moves.
    """
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Bar("downloading", *columns, console=Console(stderr=True), transient=True)
    with ExitStack() as stack:

        def show(done: int, total: int | None) -> None:
            another = not bar.tasks or bar.tasks[0].total != total
            if not bar.tasks:
                bar.add_task("", total=total)
                if bar.console.is_terminal:
                    stack.enter_context(bar)
            if another and not bar.console.is_terminal:
                say("downloading" if total is None else f"downloading {total / 1e6:.1f} MB")
            bar.update(bar.task_ids[0], completed=done, total=total)

        yield show
