"""Logs become curves, with matplotlib as pictures and without it as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from draftwalk.errors import UserError
from draftwalk.train.curves import Learned, Measured, begun_line, measured_line, read_curves
from draftwalk.train.measurement import Acceptance, Errors, Measurement, Offset, Worth
from draftwalk.train.pictures import draw_learning, draw_worth

PNG = b"\x89PNG\r\n\x1a\n"
OFFSETS = (
    Offset(1, 10, 10, 5, 8, 6, 6),
    Offset(2, 10, 6, 3, 5, 4, 4),
    Offset(3, 10, 0, 0, 0, 0, 0),
)
LENGTHS = {n: Acceptance(2, 10, 10 * n, 3 * n, 1 + 0.3 * n, 1 + 0.35 * n) for n in (1, 3)}
WORTH = Worth(2, 40, LENGTHS, {"a": LENGTHS}, {}, OFFSETS, Errors(1, 2, 3, 4, 0), 1.5, 2.5)
MEASUREMENT = Measurement(4, 16, 0.0, 2, 40, 10, WORTH, None, ())


def progress(step: int, loss: float = 2.0) -> str:
    line = {"step": step, "anchors": 64 * step, "seconds": 0.5 * step, "loss": loss}
    return json.dumps({**line, "acceptance_length": 1.5, "rate": 0.1})


def measured(step: int, length: float = 2.0) -> str:
    line = {"kind": "measure", "step": step, "anchors": 64 * step, "seconds": 0.5 * step}
    return json.dumps({**line, "acceptance_length": length, "suites": {"gsm8k": length}})


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


def test_a_log_is_read(tmp_path: Path) -> None:
    head = json.dumps({"kind": "start", "arguments": ["--block", "8"]})
    log = written(tmp_path / "log", head, progress(10), measured(10), "", progress(20, 1.0))
    curves = read_curves(log)
    assert curves.learned == (
        Learned(10, 640, 5.0, 2.0, 1.5),
        Learned(20, 1280, 10.0, 1.0, 1.5),
    )
    assert curves.measured == (Measured(10, 640, 5.0, 2.0, {"gsm8k": 2.0}),)
    assert json.loads(json.dumps(curves.as_json()))["measured"][0]["suites"] == {"gsm8k": 2.0}


def test_after_a_resume_the_later_lines_hold(tmp_path: Path) -> None:
    lost = (progress(30, 9.0), measured(30, 9.0), progress(40, 9.0))
    log = written(tmp_path / "log", progress(10), progress(20), *lost, progress(30), measured(30))
    curves = read_curves(log)
    assert [(one.step, one.loss) for one in curves.learned] == [(10, 2.0), (20, 2.0), (30, 2.0)]
    assert [one.acceptance_length for one in curves.measured] == [2.0]


def test_what_a_run_lost_before_it_went_on_is_void(tmp_path: Path) -> None:
    lost = (progress(20), measured(20), progress(30))
    log = written(tmp_path / "log", progress(10), *lost, json.dumps(begun_line(12)))
    assert [one.step for one in read_curves(log).learned] == [10]
    assert read_curves(log).measured == ()


def test_a_last_line_may_be_cut_short(tmp_path: Path) -> None:
    log = written(tmp_path / "log", progress(10), progress(20))
    log.write_text(log.read_text()[:-9])
    assert [one.step for one in read_curves(log).learned] == [10]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no JSON"),
        ("[1]", "line 2 is no JSON object"),
        ('{"step": 1}', "line 2 has no number anchors"),
        (progress(1).replace("2.0", '"2"'), "line 2 has no number loss"),
        (progress(1).replace("1.5", "true"), "line 2 has no number acceptance_length"),
        (progress(1).replace("2.0", "NaN"), "line 2 has no number loss"),
        (measured(1).replace('{"gsm8k": 2.0}', "[2.0]"), "line 2 has no suites"),
        (measured(1).replace('{"gsm8k": 2.0}', '{"gsm8k": null}'), "line 2 has no number gsm8k"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_curves(written(tmp_path / "log", progress(0), line))


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere cannot be read: No such file"):
        read_curves(tmp_path / "nowhere")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\n")
    with pytest.raises(UserError, match="cannot be read"):
        read_curves(tmp_path / "bytes")


def test_a_measurement_becomes_a_line_of_the_log(tmp_path: Path) -> None:
    line = json.dumps(measured_line(7, 448, 3.5, MEASUREMENT))
    (found,) = read_curves(written(tmp_path / "log", line)).measured
    assert found == Measured(7, 448, 3.5, LENGTHS[3].length, {"a": LENGTHS[3].length})
    looping = replace(MEASUREMENT, loop_free=None, looping=WORTH)
    assert measured_line(7, 448, 3.5, looping) == measured_line(7, 448, 3.5, MEASUREMENT)


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = [progress(step, 3.0 / step) for step in range(1, 200)]
    curves = read_curves(written(tmp_path / "log", *lines, measured(199), measured(210, 2.5)))
    draw_learning(curves, tmp_path / "learning")
    draw_worth(WORTH, 16, tmp_path / "worth.png")
    for name in ("learning", "worth.png"):
        assert (tmp_path / name).read_bytes().startswith(PNG)
    short = read_curves(written(tmp_path / "short", progress(1)))
    draw_learning(short, tmp_path / "short.png")
    assert (tmp_path / "short.png").read_bytes().startswith(PNG)


def test_nothing_to_draw_or_to_draw_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no progress yet"):
        draw_learning(read_curves(written(tmp_path / "log")), tmp_path / "out.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match=r"pip install 'draftwalk\[train\]'"):
        draw_worth(WORTH, 16, tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()
