"""What is asked before a drafter is trained, and what becomes of runs that are disturbed."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from draftwalk.cli import fitting
from draftwalk.draft.load import read_config
from draftwalk.models import open_model
from draftwalk.train import stage
from draftwalk.train.checkpoints import read_standing
from draftwalk.train.fit import Counts, Fit
from draftwalk.train.lock import alone_in
from draftwalk.train.stage import Told
from draftwalk.train.stopping import stopping
from support.command_line import Outcome, call
from support.talking_model import write_target

SHAPE = ("--layers", "1", "--block", "4", "--rank", "8", "--top-k", "4")
SMALL = (*SHAPE, "--batch", "2", "--anchors", "8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target, answers and answers held out, and a run of eight updates."""
    folder = tmp_path_factory.mktemp("fit")
    write_target(folder / "target.gguf", stops_for="e", thought=0.3, width=64, head_dim=16)
    for name, first in (("prompts", 0), ("others", 10)):
        lines = [{"turns": [f"Talk of {n}, please"]} for n in range(first, first + 10)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    answers(folder, "data", "--taps", "0,1,2")
    answers(folder, "held", "--taps", "0,1,2", "--sampled", "0", prompts="others")
    done = fit(folder, folder / "run", "--updates", "8", "--decay", "0", *SMALL)
    assert done.code == 0, done.err
    assert "learned from as well" not in done.err
    return folder


def answers(folder: Path, out: str, *more: str, prompts: str = "prompts") -> None:
    done = call(
        "train", "answers", "-m", folder / "target.gguf", "--prompts", folder / f"{prompts}.jsonl",
        "-o", folder / out, "-n", "40", *more,
    )  # fmt: skip
    assert done.code == 0, done.err


def fit(folder: Path, out: Path, *more: str | Path, held: str = "held") -> Outcome:
    return call(
        "train", "fit", "-m", folder / "target.gguf", "--answers", folder / "data",
        "--held-out", folder / held, "-o", out, *more,
    )  # fmt: skip


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


def step_of(run: Path) -> object:
    return read_standing(run / "checkpoint.safetensors").progress["step"]


def goes_on(made: Path, run: Path, to: int) -> None:
    """The run takes one more update, and stands there."""
    done = fit(made, run, "--updates", "1", "--decay", "0")
    assert done.code == 0, done.err
    assert step_of(run) == to


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--block", "8"), "has block 4, asked for is 8"),
        (("--mask", "5"), "has mask 99, asked for is 5"),
        (("--layers", "2"), "has layers 1, asked for is 2"),
        (("--two-way",), "has causal True, asked for is False"),
        (("--dflash",), "has dflash2 True, asked for is False"),
        (("--taps", "1"), "has taps 0,1, asked for is 1"),
    ],
)
def test_another_shape_is_refused(
    made: Path, run: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    """When a run goes on, and for the drafter to start from."""
    files = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = fit(made, run, "--updates", "1", *options)
    assert done.code == 1
    assert said in done.err
    assert files == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    small = ("--from", run / "drafter.gguf")
    done = fit(made, tmp_path / "new", "--updates", "1", *small, *options)
    assert done.code == 1
    assert said in done.err


def test_the_record_has_the_shape_that_was_trained(made: Path) -> None:
    (began,) = json.loads((made / "run" / "run.json").read_text())
    assert began["arguments"]["shape"] == {
        "taps": [0, 1], "layers": 1, "mlp": 64, "block": 4, "mask": 99, "causal": True,
        "window": None, "dflash2": True, "kernel": 2, "group": 16, "rank": 8, "candidates": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--lengths", "2,3"), "the longest must be the block of 4"),
        (("--lengths", "0,4"), "the shortest has two"),
        (("--taps", "1,1"), "name a layer twice"),
        (("--head", "2", "--negatives", "0"), "a head of 2 tokens has no 4 candidates"),
    ],
)
def test_what_is_refused_leaves_no_run(
    made: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = fit(made, tmp_path / "run", "--updates", "1", *SMALL, *options)
    assert done.code == 1
    assert said in done.err
    done = fit(made, tmp_path / "run", "--updates", "1", *SMALL)
    assert done.code == 0, done.err


def test_answers_held_out_are_looked_at_first(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    shutil.copytree(made, folder)
    answers(folder, "narrow", "--taps", "1", "--sampled", "0", prompts="others")
    answers(folder, "sampled", "--taps", "0,1", "--sampled", "1", prompts="others")
    shutil.copytree(folder / "held", folder / "damaged")
    shard = next((folder / "damaged").glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x55")
    shutil.copytree(folder / "held", folder / "foreign")
    header = folder / "foreign" / "answers.json"
    header.write_text(json.dumps({**json.loads(header.read_text()), "target": "another"}))
    for held, said in (
        ("narrow", "not of [0]"),
        ("sampled", "were sampled"),
        ("damaged", "its checksum differs"),
        ("foreign", "answers of another target"),
    ):
        done = fit(folder, folder / "new", "--updates", "1", *SMALL, held=held)
        assert done.code == 1, held
        assert said in done.err
        assert not (folder / "new" / "config.json").exists()
    done = fit(folder, folder / "new", "--updates", "1", *SMALL, held="data")
    assert "10 of the 10 prompts held out are learned from as well" in done.err


def test_foreign_drafters_are_left_alone(made: Path, run: Path, tmp_path: Path) -> None:
    (run / "drafter" / "notes.txt").write_text("mine")
    done = fit(made, run, "--updates", "1")
    assert done.code == 1
    assert "holds notes.txt" in done.err
    assert step_of(run) == 8
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(run / "drafter.gguf", other)
    done = fit(made, other, "--updates", "1", *SMALL)
    assert done.code == 1
    assert "holds drafter.gguf, which is of no run there" in done.err
    assert not (other / "config.json").exists()


def test_a_run_that_diverges_leaves_what_was_saved(made: Path, run: Path) -> None:
    done = fit(made, run, "--updates", "30", "--lr", "1e30")
    assert done.code == 1
    assert "the run diverged: update 1" in done.err
    assert "--lr" in done.err
    assert step_of(run) == 8
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert all(line["step"] <= 9 for line in log)
    assert call("train", "curves", run).code == 0


def test_a_run_is_trained_by_one_process(made: Path, run: Path) -> None:
    with alone_in(run):
        done = fit(made, run, "--updates", "1")
    assert done.code == 1
    assert "another process works in" in done.err
    assert step_of(run) == 8
    goes_on(made, run, to=9)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_loses_nothing(
    made: Path, run: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def interrupting(told: Told) -> str:
        if told.step == 11:
            signal.raise_signal(number)
        return ""

    before = signal.signal(number, signal.default_int_handler)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(fitting, "_in_words", interrupting)
            done = fit(made, run, "--updates", "100")
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert done.code == 130
    assert "stopped after update 11, which is saved; the same command goes on" in done.err
    assert step_of(run) == 11
    goes_on(made, run, to=12)


def test_the_drafter_is_there_before_it_is_measured(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measuring is the last, takes a while, and may be interrupted."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stage, "measure", interrupted)
    done = fit(made, tmp_path / "run", "--updates", "1", *SMALL)
    assert done.code == 130
    assert read_config(open_model(tmp_path / "run" / "drafter.gguf")).block == 4
    often = ("--updates", "9", "--measure-every", "1e-6")
    done = fit(made, tmp_path / "often", *often, *SMALL)
    assert done.code == 130
    assert step_of(tmp_path / "often") == 1


def test_a_second_signal_interrupts_at_once() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with stopping() as asked:
            assert not asked()
            signal.raise_signal(signal.SIGINT)
            assert asked()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_log_that_was_cut_short_goes_on(made: Path, run: Path) -> None:
    log = run / "log.jsonl"
    lost = {"step": 90, "anchors": 9, "seconds": 9.0, "loss": 1.0, "acceptance_length": 1.0}
    log.write_text(log.read_text() + json.dumps(lost) + '\n{"step": 100, "anch')
    done = fit(made, run, "--updates", "4", "--decay", "0")
    assert done.code == 0, done.err
    curves = call("train", "curves", run)
    assert curves.code == 0, curves.err
    learned, measured = curves.json["learned"], curves.json["measured"]
    assert isinstance(learned, list)
    assert isinstance(measured, list)
    assert [one["step"] for one in learned] == [10]
    assert [one["step"] for one in measured] == [8, 12]


def test_starting_from_a_drafter(made: Path, tmp_path: Path) -> None:
    """Its list of tokens and its calibration are not those of the new one."""
    run = made / "run"
    listed = fit(made, tmp_path / "a", "--updates", "1", "--draft-vocabulary", "40", *SMALL)
    assert listed.code == 0, listed.err
    start = ("--from", tmp_path / "a" / "drafter.gguf", "--draft-vocabulary", "0")
    done = fit(made, tmp_path / "b", "--updates", "1", "--batch", "2", *start)
    assert done.code == 0, done.err
    assert read_config(open_model(tmp_path / "b" / "drafter.gguf")).listed is None
    assert "draftwalk" not in json.loads((tmp_path / "b" / "config.json").read_text())
    done = fit(made, tmp_path / "b", "--updates", "1", "--batch", "2", *start)
    assert done.code == 0, done.err
    assert "--from is for its beginning" in done.err
    done = fit(made, tmp_path / "c", "--updates", "1", "--from", run / "drafter")
    assert done.code == 1
    assert "start from the drafter.gguf" in done.err


def test_a_precision_reaches_the_updates_and_may_change(
    made: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watch(fit: Fit) -> Counts:
        seen.append(fit.settings.precision)
        return update(fit)

    update = Fit.update
    monkeypatch.setattr(Fit, "update", watch)
    for precision in ("highest", "medium"):
        done = fit(made, run, "--updates", "1", "--decay", "0", "--precision", precision)
        assert done.code == 0, done.err
    goes_on(made, run, to=11)
    assert seen == ["highest", "medium", "medium"]


def test_a_damaged_record_and_places_that_are_no_folders(made: Path, run: Path) -> None:
    (run / "run.json").write_text("[{")
    done = fit(made, run, "--updates", "1")
    assert done.code == 1
    assert "run.json is no list in JSON" in done.err
    for out in (run / "run.json", run / "run.json" / "below"):
        done = fit(made, out, "--updates", "1", *SMALL)
        assert done.code == 1
        assert "cannot be written to" in done.err
        assert "unexpected" not in done.err


def test_seeds_have_a_range(made: Path, tmp_path: Path) -> None:
    done = fit(made, tmp_path / "run", "--updates", "1", "--seed", "99999999999999999999")
    assert done.code == 2


def test_measuring_asks_first(made: Path, tmp_path: Path) -> None:
    other = write_target(tmp_path / "other.gguf", seed=8, width=64, head_dim=16)
    drafter = ("-md", made / "run" / "drafter.gguf", "--answers", made / "held")
    done = call("train", "measure", "-m", other, *drafter)
    assert done.code == 1
    assert "answers of another target" in done.err
    pytest.importorskip("matplotlib")
    plot = ("--plot", tmp_path / "nowhere" / "x.png")
    done = call("train", "measure", "-m", made / "target.gguf", *drafter, *plot)
    assert done.code == 1
    assert "no picture can be written to" in done.err


def test_curves_of_no_run_make_none(tmp_path: Path) -> None:
    done = call("train", "curves", tmp_path / "nothere")
    assert done.code == 1
    assert not (tmp_path / "nothere").exists()
