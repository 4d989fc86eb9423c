"""Curves as pictures. Only this needs matplotlib, and only once something is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from draftwalk.errors import UserError
from draftwalk.train.curves import Curves
from draftwalk.train.measurement import Worth
from draftwalk.weights.whole_file import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = 5.0  # inches
_SMOOTHED = 40  # means that a curve of loss is made of


def check_can_draw(path: Path) -> None:
    """Checks it before something long is drawn.

    Raises:
        UserError: there is nothing to draw with, or no folder for the picture.
    """
    _figure(1)
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(f"no picture can be written to {path}", "name a file in a folder there is")


def draw_learning(curves: Curves, path: Path) -> None:
    """Loss, acceptance length, and that of every suite, over the blocks that were learned.

    Raises:
        UserError: there is nothing to draw, or nothing to draw with.
    """
    if not curves.learned and not curves.measured:
        raise UserError("the log has no progress yet", "train a little first")
    figure, (loss, pooled, suites) = _figure(3)
    anchors = [point.anchors / 1000 for point in curves.learned]
    held_out = [point.anchors / 1000 for point in curves.measured]
    for axes in (loss, pooled, suites):
        axes.set_xlabel("thousand blocks learned")
    loss.set_title("loss")
    losses = [point.loss for point in curves.learned]
    loss.plot(anchors, losses, alpha=0.3)
    loss.plot(*_means(anchors, losses))
    pooled.set_title("acceptance length")
    estimates = [point.acceptance_length for point in curves.learned]
    pooled.plot(*_means(anchors, estimates), label="learned answers, true tokens before")
    lengths = [point.acceptance_length for point in curves.measured]
    pooled.plot(held_out, lengths, "o-", label="held out, the real walk")
    _legend(pooled)
    suites.set_title("acceptance length held out")
    for suite in sorted({suite for point in curves.measured for suite in point.suites}):
        with_it = [point for point in curves.measured if suite in point.suites]
        lengths = [point.suites[suite] for point in with_it]
        suites.plot([point.anchors / 1000 for point in with_it], lengths, "o-", label=suite)
    if curves.measured:
        _legend(suites)
    _save(figure, path)


def draw_worth(worth: Worth, candidates: int, path: Path) -> None:
    """Acceptance by offset and by window.

    Raises:
        UserError: there is nothing to draw with.
    """
    figure, (offsets, windows) = _figure(2)
    numbers = [one.offset for one in worth.offsets]
    for label, values in (
        ("survival", [one.survival for one in worth.offsets]),
        ("recall at 1, all before right", [one.recall_1 for one in worth.offsets]),
        (f"recall at {candidates}, all before right", [one.recall_k for one in worth.offsets]),
        ("selector right, if covered", [one.selector_accuracy for one in worth.offsets]),
    ):
        offsets.plot(numbers, _floats(values), "o-", label=label)
    offsets.set_xlabel("offset in the block")
    offsets.set_ylim(0.0, 1.02)
    offsets.set_title("acceptance by offset")
    _legend(offsets)
    taken = sorted(worth.windows)
    windows.plot(taken, [worth.windows[w].length for w in taken], "o-", label="pooled")
    means = [worth.windows[w].length_per_answer for w in taken]
    windows.plot(taken, means, "o-", label="mean of answers")
    windows.axhline(worth.oracle_length, ls="--", c="0.5", label=f"right among {candidates}")
    windows.set_xlabel("most tokens verified")
    windows.set_title("acceptance length")
    _legend(windows)
    _save(figure, path)


def _figure(panels: int) -> tuple[Figure, Sequence[Axes]]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(
            f"pictures need matplotlib: {error}", "pip install 'draftwalk[train]'"
        ) from None
    figure = Figure(figsize=(_PANEL * panels, _PANEL), layout="constrained")
    axes = [figure.add_subplot(1, panels, n + 1) for n in range(panels)]
    for one in axes:
        one.grid(alpha=0.3)
    return figure, axes


def _legend(axes: Axes) -> None:
    """Below, where no curve is."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)


def _save(figure: Figure, path: Path) -> None:
    """As PNG, whatever the file is called."""
    with whole_file(path) as file:
        figure.savefig(file, format="png", dpi=120)


def _means(x: Sequence[float], y: Sequence[float]) -> tuple[list[float], list[float]]:
    """A curve of fewer points, each the mean of those it stands for."""
    parts = min(len(x), _SMOOTHED)
    pairs = [np.array_split(np.array(values), parts) for values in (x, y)] if parts else ([], [])
    return [float(part.mean()) for part in pairs[0]], [float(part.mean()) for part in pairs[1]]


def _floats(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]
