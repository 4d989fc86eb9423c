from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from draftwalk.errors import UserError
from draftwalk.train.shards import Answer, AnswerSet, ShardWriter, answered_seeds
from support import training
from support.training import DATA, WIDTH


def answer(seed: int, length: int = 40, taps: int = 2) -> Answer:
    made = training.answer(seed, length, taps=taps)
    return replace(made, facts=replace(made.facts, seed=seed))


def keys(folder: Path) -> list[str]:
    return [one.facts.key for one in AnswerSet(folder, verify=True)]


def written(folder: Path) -> list[Answer]:
    answers = [answer(seed, length) for seed, length in ((1, 20), (2, 33), (3, 12))]
    writer = ShardWriter(folder, DATA)
    writer.write(answers[:2])
    ShardWriter(folder, DATA).write(answers[2:])  # another run goes on
    return answers


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    answers = written(tmp_path)
    data = AnswerSet(tmp_path, verify=True)
    assert len(data) == 3
    assert data.facts == DATA
    assert data.tokens == 65
    for one, other in zip(answers, data, strict=True):
        assert one.facts == other.facts
        for name in ("tokens", "learned", "features"):
            assert torch.equal(getattr(one, name), getattr(other, name))
    assert [data.size(n) for n in range(3)] == [20, 33, 12]
    assert answered_seeds(tmp_path) == {1, 2, 3}


def test_a_shard_without_its_list_does_not_exist(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "shard-00001.json").unlink()
    assert len(AnswerSet(tmp_path)) == 2
    assert answered_seeds(tmp_path) == {1, 2}


@pytest.mark.parametrize("removed", [".json", ".*"])
def test_what_is_written_after_a_shard_was_removed_replaces_nothing(
    tmp_path: Path, removed: str
) -> None:
    for seed in (0, 1, 2):
        ShardWriter(tmp_path, DATA).write([answer(seed)])
    for path in tmp_path.glob("shard-00000" + removed):
        path.unlink()
    ShardWriter(tmp_path, DATA).write([answer(9)])
    assert keys(tmp_path) == ["1", "2", "9"]


def test_two_who_write_to_a_folder_lose_nothing(tmp_path: Path) -> None:
    one, other = ShardWriter(tmp_path, DATA), ShardWriter(tmp_path, DATA)
    one.write([answer(1), answer(2)])
    other.write([answer(3)])
    one.write([answer(4)])
    assert keys(tmp_path) == ["1", "2", "3", "4"]


def test_no_name_is_taken_that_another_took_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked at the folder before either of them has written."""
    ShardWriter(tmp_path, DATA).write([answer(1)])
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(()))
    ShardWriter(tmp_path, DATA).write([answer(2)])
    assert keys(tmp_path) == ["1", "2"]


@pytest.mark.parametrize("text", ["{}", '{"answers": 1, "taps": 1, "sha256": "x"}'])
def test_lists_that_say_nothing_are_named(tmp_path: Path, text: str) -> None:
    written(tmp_path)
    (tmp_path / "shard-00001.json").write_text(text)
    for read in (AnswerSet, answered_seeds):
        with pytest.raises(UserError, match=r"shard-00001\.json is damaged"):
            read(tmp_path)
    (tmp_path / "answers.json").write_text(text)
    with pytest.raises(UserError, match=r"answers\.json is damaged"):
        AnswerSet(tmp_path)
    with pytest.raises(UserError, match=r"answers\.json is damaged"):
        ShardWriter(tmp_path, DATA)


def test_names_that_are_no_text_are_kept(tmp_path: Path) -> None:
    made = answer(1)
    facts = replace(made.facts, key="\udcff", source="\ud800")
    ShardWriter(tmp_path, DATA).write([replace(made, facts=facts)])
    assert AnswerSet(tmp_path)[0].facts == facts


def test_a_damaged_shard_is_found(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / "shard-00000.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    before = AnswerSet(tmp_path).checksum
    assert before == AnswerSet(tmp_path).checksum
    with pytest.raises(UserError, match=r"shard-00000\.safetensors is damaged"):
        AnswerSet(tmp_path, verify=True)


def test_a_list_of_another_shard_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / "shard-00000.json"
    listed = json.loads(path.read_text())
    listed["answers"].pop()
    path.write_text(json.dumps(listed))
    with pytest.raises(UserError, match="disagree"):
        AnswerSet(tmp_path)


def test_a_folder_never_mixes_data(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(UserError, match=r"temperature 0\.7, asked for is 0\.9"):
        ShardWriter(tmp_path, replace(DATA, temperature=0.9))
    with pytest.raises(UserError, match="holds no answers"):
        AnswerSet(tmp_path / "empty")


def test_folders_join_in_the_layers_that_all_have(tmp_path: Path) -> None:
    facts = replace(DATA, taps=(0, 1, 2))
    wide, narrow = [answer(n, taps=3) for n in range(2)], [answer(9, taps=2)]
    ShardWriter(tmp_path / "wide", facts).write(wide)
    other = replace(DATA, taps=(1, 0), sampled=1.0, max_tokens=9)
    ShardWriter(tmp_path / "narrow", other).write(narrow)
    data = AnswerSet(tmp_path / "wide", tmp_path / "narrow", verify=True)
    assert len(data) == 3
    assert data.facts.taps == (0, 1)
    assert torch.equal(data[1].features, wide[1].features[:, : 2 * WIDTH])
    assert torch.equal(data[2].features, narrow[0].features.roll(WIDTH, dims=1))
    assert torch.equal(data[2].tokens, narrow[0].tokens)
    last = data.features(0, (2,))
    assert last is not None
    assert torch.equal(last, wide[0].features[:, 2 * WIDTH :])
    assert data.features(2, (2,)) is None
    assert [data.keeping(layer) for layer in range(4)] == [3, 3, 2, 0]


def test_folders_of_different_targets_do_not_join(tmp_path: Path) -> None:
    ShardWriter(tmp_path / "one", DATA).write([answer(1)])
    ShardWriter(tmp_path / "other", replace(DATA, target="u")).write([answer(2)])
    with pytest.raises(UserError, match="other holds answers with target u, asked for is t"):
        AnswerSet(tmp_path / "one", tmp_path / "other")
