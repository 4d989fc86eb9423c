"""A picture of the document: speeds, acceptance against cycle, and where cycles go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from draftwalk.errors import UserError
from speculation_parts.answer import ENGINES, OURS, PLAIN
from speculation_parts.cycle import PARTS
from speculation_parts.summary import Document
from speculation_parts.tables import Entries, Entry, entries

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart without red against green: blues are ours, oranges llama.cpp's.
_COLOURS = dict(zip(ENGINES, ("#9ecae1", "#6baed6", "#08519c", "#fdae6b", "#d94801"), strict=True))


def plot(document: Document, path: Path) -> None:
    """Writes a PNG.

    Raises:
        UserError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("a plot needs matplotlib", "pip install matplotlib") from error
    figure = Figure(figsize=(15, 10), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2)
    _speeds(figure.add_subplot(grid[0, :]), document)
    _acceptance(figure.add_subplot(grid[1, 0]), entries(document, "arms"))
    _cycles(figure.add_subplot(grid[1, 1]), entries(document, "cycles"))
    figure.savefig(path, format="png", dpi=110)


def _speeds(axes: Axes, document: Document) -> None:
    """Tokens per second by suite, every engine by its best arm."""
    suites = cast("dict[str, Entries]", document["suites"])
    groups = {"all": entries(document, "pooled"), **suites}
    engines = list(entries(document, "pooled"))
    width = 0.8 / len(engines)
    for number, engine in enumerate(engines):
        heights = [cast(float, found[engine]["tok_s"]) for found in groups.values()]
        places = [n + (number - (len(engines) - 1) / 2) * width for n in range(len(groups))]
        axes.bar(places, heights, width, label=engine, color=_COLOURS[engine])
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel("tokens per second, decoding")
    axes.set_title("Speed by suite")
    axes.legend()


def _acceptance(axes: Axes, arms: Entries) -> None:
    """Tokens of a step against its time; a ray through the origin is one speed."""
    mine = {name: arm for name, arm in arms.items() if arm["engine"] in OURS}
    plain = cast(float, mine[PLAIN]["cycle_ms"])
    points = {
        name: (cast(float, arm["cycle_ms"]) / plain, cast(float, arm["tokens_per_step"]), arm)
        for name, arm in mine.items()
    }
    right = 1.1 * max(x for x, _, _ in points.values())
    top = 1.2 * max(y for _, y, _ in points.values())
    for speed in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        end = min(right, top / speed)
        axes.plot([0, end], [0, speed * end], color="#cccccc", lw=1.5 if speed == 1 else 0.8)
        axes.annotate(f"{speed:g}x", (end, speed * end), color="#888888", fontsize=8)
    for name, (x, y, arm) in points.items():
        axes.scatter([x], [y], color=_COLOURS[str(arm["engine"])])
        axes.annotate(name, (x, y), textcoords="offset points", xytext=(4, 4), fontsize=8)
    axes.set_xlim(0, right)
    axes.set_ylim(0, top)
    axes.set_xlabel("cycle, in plain steps")
    axes.set_ylabel("tokens per step")
    axes.set_title("Acceptance against cycle")


def _cycles(axes: Axes, cycles: Entries) -> None:
    """Milliseconds by part."""
    names = list(cycles)
    left = dict.fromkeys(names, 0.0)
    shades = ("#08306b", "#2171b5", "#6baed6", "#c6dbef", "#7f2704", "#d94801", "#fdae6b",
              "#bdbdbd", "#737373", "#d9d9d9", "#969696", "#525252")  # fmt: skip
    for part, colour in zip(PARTS, shades, strict=True):
        widths = [max(0.0, _part(cycles[name], part)) for name in names]
        axes.barh(names, widths, left=[left[name] for name in names], label=part, color=colour)
        for name, one in zip(names, widths, strict=True):
            left[name] += one
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.set_title("Where a cycle goes")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def _part(cycle: Entry, name: str) -> float:
    return cast(float, cycle.get(name, 0.0))
