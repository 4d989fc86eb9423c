"""Answers are known again by their shards, however folders grew or were moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftwalk.errors import UserError
from draftwalk.train.order import DataOrder
from draftwalk.train.shards import AnswerSet, ShardWriter
from support.training import DATA, answer


def order_of(data: AnswerSet) -> DataOrder:
    return DataOrder(1, list(range(len(data))), data.shards)


def keys(data: AnswerSet, numbers: list[int]) -> list[str]:
    return [data[number].facts.key for number in numbers]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name, seeds in (("a", range(4)), ("b", range(10, 16))):
        ShardWriter(tmp_path / name, DATA).write([answer(seed) for seed in seeds])
    return tmp_path / "a", tmp_path / "b"


def test_the_first_of_several_folders_may_grow(folders: tuple[Path, Path]) -> None:
    data = AnswerSet(*folders)
    first = order_of(data)
    taken = keys(data, first.take(5))
    assert sorted(taken, key=int) != ["0", "1", "2", "3", "10"], "the order is drawn"
    ShardWriter(folders[0], DATA).write([answer(seed) for seed in (4, 5)])
    grown = AnswerSet(*folders)
    later = order_of(grown)
    later.load(first.state())
    taken += keys(grown, later.take(7))
    assert sorted(map(int, taken)) == [*range(6), *range(10, 16)], "each once"


@pytest.mark.parametrize("swapped", [False, True])
def test_folders_in_another_order_change_nothing(folders: tuple[Path, Path], swapped: bool) -> None:
    data = AnswerSet(*folders)
    first = order_of(data)
    first.take(3)
    state = first.state()
    again = AnswerSet(*folders[::-1]) if swapped else AnswerSet(*folders)
    later = order_of(again)
    later.load(state)
    assert keys(again, later.take(7)) == keys(data, first.take(7))


def test_a_run_without_the_answers_of_before_is_refused(folders: tuple[Path, Path]) -> None:
    state = order_of(AnswerSet(*folders)).state()
    with pytest.raises(UserError, match="2 shards of answers, 1 of which are missing"):
        order_of(AnswerSet(folders[1])).load(state)


@pytest.mark.parametrize("count", [3, 10, 12])
def test_states_from_before_shards_were_told(count: int) -> None:
    first = DataOrder(1, list(range(10)))
    first.take(3)
    state = first.state()
    del state["shards"]
    later = DataOrder(1, list(range(count)), [("x", count)])
    if count < 10:
        with pytest.raises(UserError, match="learned from 10 answers, and there are 3"):
            later.load(state)
        return
    later.load(state)
    rest = later.take(count - 3)
    assert (rest == first.take(7)) == (count == 10)
    assert sorted(rest) == sorted({*range(count)} - {*DataOrder(1, list(range(10))).take(3)})


def test_a_folder_given_twice_is_learned_twice(folders: tuple[Path, Path]) -> None:
    data = AnswerSet(folders[0], folders[0])
    first = order_of(data)
    taken = first.take(5)
    later = order_of(data)
    later.load(first.state())
    assert sorted(taken + later.take(3)) == list(range(8))
