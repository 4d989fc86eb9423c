"""Ctrl-C and SIGTERM while learning: the update that runs is finished, and its state is saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A run was asked to stop, and where it stands is saved."""


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Yields what says whether a signal asked to stop; a second one has its usual effect at once.

    Signals that are ignored stay so, as in the background of a shell.
    """
    asked = False
    before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int] = {}

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if handler is not None and handler != signal.SIG_IGN:
                before[number] = handler
                signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        restore()
