"""Training from the command line, on a model of 100 characters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftwalk.draft.load import read_config
from draftwalk.models import open_model
from support.command_line import call
from support.talking_model import write_target

SMALL = ("--layers", "1", "--block", "4", "--rank", "8", "--top-k", "4", "--anchors", "8")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    path = write_target(folder / "target.gguf", stops_for="e", thought=0.3, width=64, head_dim=16)
    prompts = [{"id": str(n), "turns": [f"Talk of {n}, please"]} for n in range(12)]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in prompts))
    return path


def test_the_stages_one_by_one(model: Path, tmp_path: Path) -> None:
    target, prompts = ("-m", model), ("--prompts", model.parent / "prompts.jsonl")
    for out, more in (("data", ()), ("held", ("--sampled", "0", "--keep-loops", "--limit", "4"))):
        done = call(
            "train", "answers", *target, *prompts, "-o", tmp_path / out, "-n", "40",
            "--taps", "0,1,2", *more,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert "0.4 kB a token" in done.err
    fit = (
        "train", "fit", *target, "--answers", tmp_path / "data", "--held-out", tmp_path / "held",
        "-o", tmp_path / "run", "--batch", "4", "--updates",
    )  # fmt: skip
    done = call(*fit, "6", "--taps", "0,2", "--draft-vocabulary", "40", *SMALL)
    assert done.code == 0, done.err
    assert "acceptance length" in done.out
    assert done.out.splitlines()[-1] == str(tmp_path / "run" / "drafter.gguf")
    listed = read_config(open_model(tmp_path / "run" / "drafter.gguf")).listed
    assert listed is not None
    assert len(listed) == 40
    done = call(*fit, "4")  # goes on, with the shape it has
    assert done.code == 0, done.err
    runs = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [one["arguments"]["budget"]["updates"] for one in runs] == [6, 4]
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line.get("kind") == "measure"] == [6, 9]
    for name in ("drafter", "drafter.gguf"):
        config = read_config(open_model(tmp_path / "run" / name))
        assert config.taps == (0, 2)
        assert config.block == 4
        assert config.calibration is not None
        assert config.calibration.labels > 0, "found on the answers held out"
    measured = call(
        "train", "measure", *target, "-md", tmp_path / "run" / "drafter.gguf",
        "--answers", tmp_path / "held", "--windows", "1,3", "--json",
    )  # fmt: skip
    assert measured.code == 0, measured.err
    found = measured.json
    assert found["answers"] == 4
    curves = call("train", "curves", tmp_path / "run")
    measured_at = curves.json["measured"]
    assert isinstance(measured_at, list)
    assert [one["step"] for one in measured_at] == [9], "the first end was gone back behind"
    ran = call("run", *target, "-md", tmp_path / "run" / "drafter.gguf", "-n", "8", "--json", "Hi")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("given", [True, False])
def test_one_command_does_everything(model: Path, tmp_path: Path, given: bool) -> None:
    """With prompts of a file, or with the model's own."""
    prompts = ("--prompts", model.parent / "prompts.jsonl") if given else ()
    done = call(
        "train", "all", "-m", model, *prompts, "-o", tmp_path, "--minutes", "0.1", "-n", "24",
        "--batch", "2", *SMALL,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == str(tmp_path / "drafter.gguf")
    assert "acceptance length" in done.out
    assert (tmp_path / "prompts.jsonl").exists() != given
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert log[-1]["kind"] == "measure"
    held, learned = (
        {one["key"] for file in (tmp_path / part).glob("shard-*.json")
         for one in json.loads(file.read_text())["answers"]}
        for part in ("held-out", "answers")
    )  # fmt: skip
    assert held
    assert learned
    assert not held & learned


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("answers",), "--out DIR"),
        (("fit", "--out", "x"), "--answers DIR"),
        (("fit", "--out", "x", "--answers", "y"), "either --minutes or --updates"),
        (("measure", "-md", "d"), "--answers DIR"),
        (("answers", "--out", "x", "--taps", "1-3"), "no list of whole numbers"),
        (("all",), "--out DIR"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_loaded(
    model: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = call("train", *arguments)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_answers_of_another_target_are_refused(model: Path, tmp_path: Path) -> None:
    other = write_target(tmp_path / "other.gguf", seed=8, width=64, head_dim=16)
    prompts = ("--prompts", model.parent / "prompts.jsonl", "--limit", "3")
    made = call("train", "answers", "-m", other, *prompts, "-o", tmp_path / "d", "-n", "20")
    assert made.code == 0, made.err
    done = call(
        "train", "fit", "-m", model, "--answers", tmp_path / "d", "-o", tmp_path / "r",
        "--updates", "1", *SMALL,
    )  # fmt: skip
    assert done.code == 1
    assert "answers of another target" in done.err
    assert not (tmp_path / "r" / "config.json").exists()
