"""What `draftwalk train` asks before it answers, and what it says afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from draftwalk.cli.answering import held_apart, prompts_for
from draftwalk.errors import UserError
from draftwalk.train.conversations import Conversation
from draftwalk.train.shards import ShardWriter
from support.command_line import call
from support.talking_model import write_target
from support.training import DATA, answer


def talks(count: int) -> list[Conversation]:
    made = [Conversation(str(n), "file", (f"text {n}",)) for n in range(count)]
    return sorted(made, key=lambda one: one.digest)


def answered(folder: Path, conversations: list[Conversation]) -> None:
    made = answer(1)
    records = [replace(made, facts=replace(made.facts, seed=one.seed)) for one in conversations]
    ShardWriter(folder, DATA).write(records)


@pytest.mark.parametrize("few", [1, 7, 100])
def test_further_prompts_never_move_one_between_the_folders(tmp_path: Path, few: int) -> None:
    learned, held = tmp_path / "answers", tmp_path / "held-out"
    first_held, first_rest = held_apart(talks(few), learned, held)
    assert first_held
    answered(held, first_held)
    if first_rest:
        answered(learned, first_rest)
    more_held, more_rest = held_apart(talks(400), learned, held)
    assert {*first_held} <= {*more_held}
    assert {*first_rest} <= {*more_rest}
    assert len(more_held) + len(more_rest) == 400
    assert 5 < len(more_held) < 45


def test_folders_that_share_prompts_are_refused(tmp_path: Path) -> None:
    for name in ("answers", "held-out"):
        answered(tmp_path / name, talks(3))
    with pytest.raises(UserError, match="answer 3 of the same prompts"):
        held_apart(talks(9), tmp_path / "answers", tmp_path / "held-out")


@pytest.mark.parametrize("verb", ["answers", "all"])
@pytest.mark.parametrize("below", ["", "x/y"])
def test_a_file_is_no_place_for_answers(tmp_path: Path, verb: str, below: str) -> None:
    """Said before the target, which is not there, is looked for."""
    (tmp_path / "file").write_text("mine")
    done = call("train", verb, "-m", tmp_path / "none.gguf", "-o", tmp_path / "file" / below)
    assert done.code == 1
    assert "file is none to write in" in done.err
    assert (tmp_path / "file").read_text() == "mine"


def test_nothing_is_made_for_files_without_prompts(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("\n")
    with pytest.raises(UserError, match="has no prompts"):
        prompts_for(tmp_path / "out", [tmp_path / "p.jsonl"])
    assert not (tmp_path / "out").exists()


def test_the_last_line_says_what_was_kept(tmp_path: Path) -> None:
    model = write_target(tmp_path / "target.gguf", width=64, head_dim=16)
    lines = [{"prompt": text} for text in ("One", "Two", "x" * 200)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = (
        *("train", "answers", "-m", model, "-o", tmp_path / "d", "-n", "20", "--keep-loops"),
        *("--prompts", tmp_path / "p.jsonl", "--most-prompt", "100"),
    )
    done = call(*made)
    assert done.code == 0, done.err
    assert "at most 0.0 MB for answers" in done.err
    last = done.err.splitlines()[-1]
    assert last.startswith("2 answers, 40 tokens and 0.0 MB kept, 1 skipped")
    again = call(*made)
    assert again.err.splitlines()[-1].startswith(
        "0 answers, 0 tokens and 0.0 MB kept, 2 answered before, 1 skipped"
    )
    few = call(*made, "-n", "15")
    assert few.code == 2, "with less than 16 tokens no answer is kept"
