"""Learning curves, read from the log of a run.

A log has one JSON object a line. Lines of progress have `step`, `anchors`, `seconds`, `loss` and
`acceptance_length` (estimated with true tokens before each). Lines of kind "measure" have what was
measured on answers held out: see `measured_line`. Lines of kind "begin" have the `step` from which
a run goes on: what was told of later ones before is void.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import cast

from draftwalk.errors import UserError, in_words
from draftwalk.train.measurement import Measurement

_NUMBERS = ("step", "anchors", "seconds", "acceptance_length")
_BEGIN = "begin"
_HINT = "is it the log of a training run?"


@dataclass(frozen=True, slots=True)
class Learned:
    """A line of progress.

    Attributes:
        step: updates so far.
        anchors: blocks so far.
        seconds: spent so far.
        loss: what is minimised.
        acceptance_length: estimated, on the answers that are learned.
    """

    step: int
    anchors: int
    seconds: float
    loss: float
    acceptance_length: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement on the way.

    Attributes:
        step: updates so far.
        anchors: blocks so far.
        seconds: spent so far.
        acceptance_length: of the walk through all answers held out.
        suites: the same by the prompts' file.
    """

    step: int
    anchors: int
    seconds: float
    acceptance_length: float
    suites: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Begun:
    """A run begins or goes on after so many updates."""

    step: int


@dataclass(frozen=True, slots=True)
class Curves:
    """What a run has learned so far.

    Attributes:
        learned: lines of progress, by step.
        measured: measurements, by step.
    """

    learned: tuple[Learned, ...]
    measured: tuple[Measured, ...]

    def as_json(self) -> dict[str, object]:
        """Everything."""
        return asdict(self)


def measured_line(
    step: int, anchors: int, seconds: float, measurement: Measurement
) -> dict[str, object]:
    """A line of a log that says what was measured at the full window.

    Of answers without a loop; only where all of them loop, of these.
    """
    worth = measurement.loop_free or measurement.looping
    assert worth is not None, "something was measured"
    full = measurement.block - 1
    suites = {suite: windows[full].length for suite, windows in worth.suites.items()}
    line = Measured(step, anchors, seconds, worth.windows[full].length, suites)
    return {"kind": "measure", **asdict(line)}


def begun_line(step: int) -> dict[str, object]:
    """A line of a log that says after how many updates a run begins or goes on."""
    return {"kind": _BEGIN, "step": step}


def read_curves(log: Path) -> Curves:
    """Reads a log; lines of kinds that are not known are passed over.

    A run that was resumed repeats what came after its last checkpoint: the later lines hold. The
    last line may be cut short by the end of a run.

    Raises:
        UserError: there is no such log, or a line is none of it.
    """
    try:
        lines = log.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{log} cannot be read: {in_words(error)}") from error
    learned: dict[int, Learned] = {}
    measured: dict[int, Measured] = {}
    for number, line in enumerate(lines[:-1], 1):
        point = _parse(line, f"{log.name} line {number}") if line.strip() else None
        if point is None:
            continue
        learned = {step: one for step, one in learned.items() if step <= point.step}
        measured = {step: one for step, one in measured.items() if step <= point.step}
        if isinstance(point, Measured):
            measured[point.step] = point
        elif isinstance(point, Learned):
            learned[point.step] = point
    return Curves(tuple(learned.values()), tuple(measured.values()))


def _parse(line: str, where: str) -> Learned | Measured | _Begun | None:
    try:
        read = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where} is no JSON: {error}", _HINT) from None
    if not isinstance(read, dict):
        raise UserError(f"{where} is no JSON object", _HINT)
    entry = cast(Mapping[str, object], read)
    kind = entry.get("kind")
    if kind == _BEGIN:
        return _Begun(int(_number(entry, "step", where)))
    if kind not in (None, "measure"):
        return None
    step, anchors, seconds, length = (_number(entry, key, where) for key in _NUMBERS)
    if kind is None:
        loss = _number(entry, "loss", where)
        return Learned(int(step), int(anchors), seconds, loss, length)
    suites = entry.get("suites")
    if not isinstance(suites, dict):
        raise UserError(f"{where} has no suites", _HINT)
    lengths = {suite: _number(suites, suite, where) for suite in suites}
    return Measured(int(step), int(anchors), seconds, length, lengths)


def _number(entry: Mapping[str, object], key: str, where: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise UserError(f"{where} has no number {key}", _HINT)
    return value
