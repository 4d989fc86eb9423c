from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from draftwalk.errors import UserError
from draftwalk.train.anchors import Lesson, blocks_at
from draftwalk.train.checkpoints import read_standing, write_standing
from draftwalk.train.fit import (
    Fit,
    FitSettings,
    frequent_tokens,
    learned_together,
    usable_answers,
)
from draftwalk.train.objective import Losses, Objective, losses
from draftwalk.train.optimisers import OptimiserSettings
from draftwalk.train.order import DataOrder
from draftwalk.train.precision import Precision
from draftwalk.train.processes import Processes
from draftwalk.train.schedule import Schedule
from draftwalk.train.shards import AnswerSet, ShardWriter
from support.training import DATA, FACTS, SHAPE, answer, learner

RATES = OptimiserSettings("muon", lr=0.02, vector_lr=0.01)
SETTINGS = FitSettings(
    answers=3,
    anchors=6,
    lengths=(3, 4, 6),
    frequent=20,
    drawn=10,
    inject=2,
    optimiser=RATES,
    precision="highest",
)


@pytest.fixture
def data(tmp_path: Path) -> AnswerSet:
    ShardWriter(tmp_path / "data", DATA).write([answer(n, 20 + n) for n in range(7)])
    return AnswerSet(tmp_path / "data")


def new_fit(data: AnswerSet, settings: FitSettings = SETTINGS) -> Fit:
    return Fit(learner(lively=False), data, settings, Schedule(warm_up=2))


def parameters(fit: Fit) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in fit.drafter.parameters.items()}


def same(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("dflash2", [True, False])
@pytest.mark.parametrize("method", ["muon", "adamw"])
def test_one_answer_can_be_learned_by_heart(tmp_path: Path, dflash2: bool, method: str) -> None:
    """The acceptance length comes near the block's six."""
    ShardWriter(tmp_path, DATA).write([answer(1, 40)])
    data = AnswerSet(tmp_path)
    rates = replace(RATES, method=method, lr=0.03 if method == "muon" else 0.01)
    settings = FitSettings(
        answers=1, anchors=40, frequent=0, inject=10, optimiser=rates, objective=Objective(half=3)
    )
    shape = replace(SHAPE, dflash2=dflash2)
    fit = Fit(learner(shape, lively=False), data, settings, Schedule(warm_up=5))
    first = fit.update()
    assert first.acceptance_length < 1.5
    for _ in range(120):
        last = fit.update()
    assert last.acceptance_length > 5.5


@pytest.mark.parametrize("method", ["muon", "adamw"])
def test_a_resumed_run_does_what_an_undisturbed_one_does(
    data: AnswerSet, tmp_path: Path, method: str
) -> None:
    settings = replace(SETTINGS, optimiser=replace(RATES, method=method))
    whole = new_fit(data, settings)
    for _ in range(4):
        whole.update()
    write_standing(tmp_path / "standing", whole.standing())
    for _ in range(4):
        whole.update()
    resumed = new_fit(data, settings)
    resumed.resume(read_standing(tmp_path / "standing"))
    assert resumed.step == 4
    for _ in range(4):
        resumed.update()
    assert resumed.anchors == whole.anchors
    assert same(parameters(resumed), parameters(whole))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"mask": 4}, "the mask 3, now it is 4"),
        ({"block": 4}, "the block 6, now it is 4"),
        ({"rank": 5}, "the tensors"),
        ({"taps": (1, 0)}, "the taps"),
    ],
)
def test_another_drafter_is_not_resumed(
    data: AnswerSet, tmp_path: Path, changed: dict[str, object], what: str
) -> None:
    fit = new_fit(data)
    fit.update()
    write_standing(tmp_path / "standing", fit.standing())
    shape = replace(SHAPE, **changed)  # type: ignore[arg-type]
    settings = replace(SETTINGS, lengths=())
    other = Fit(learner(shape), data, settings, Schedule())
    with pytest.raises(UserError, match=what):
        other.resume(read_standing(tmp_path / "standing"))


def test_another_target_is_not_resumed(data: AnswerSet, tmp_path: Path) -> None:
    fit = new_fit(data)
    fit.update()
    write_standing(tmp_path / "standing", fit.standing())
    ShardWriter(tmp_path / "other", replace(DATA, target="u")).write([answer(1)])
    other = new_fit(AnswerSet(tmp_path / "other"))
    with pytest.raises(UserError, match="the target t, now it is u"):
        other.resume(read_standing(tmp_path / "standing"))


def test_something_else_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "standing"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="no checkpoint of a run"):
        read_standing(path)


def test_taps_that_were_not_recorded_are_named(data: AnswerSet) -> None:
    shape = replace(SHAPE, taps=(0, 2))
    with pytest.raises(UserError, match=r"of layers \[0, 1\], not of \[2\]"):
        Fit(learner(shape), data, SETTINGS, Schedule())


def test_some_of_the_recorded_taps_are_enough(data: AnswerSet) -> None:
    """Their columns are taken, whatever the order."""
    one = Fit(learner(replace(SHAPE, taps=(1,))), data, SETTINGS, Schedule())
    narrow = one._draw(2).answer.features
    assert torch.equal(narrow, data[2].features[:, 48:])
    turned = Fit(learner(replace(SHAPE, taps=(1, 0))), data, SETTINGS, Schedule())
    assert torch.equal(turned._draw(2).answer.features, data[2].features.roll(48, dims=1))


@pytest.mark.parametrize(
    ("lengths", "shape", "what"),
    [
        ((3, 4), SHAPE, "the longest must be the block of 6"),
        ((1, 6), SHAPE, "the shortest has two"),
        ((3, 6), replace(SHAPE, causal=False), "for causal drafters"),
    ],
)
def test_lengths_that_make_no_sense(data: AnswerSet, lengths, shape, what: str) -> None:
    with pytest.raises(UserError, match=what):
        Fit(learner(shape), data, replace(SETTINGS, lengths=lengths), Schedule())


def test_the_last_layer_is_learned_from_and_not_listened_to(tmp_path: Path) -> None:
    """The same answers with outputs of the target's last layer, number 2, beside the taps."""
    answers = [answer(n, 20 + n, taps=3) for n in range(7)]
    ShardWriter(tmp_path / "with", replace(DATA, taps=(0, 1, 2))).write(answers)
    without = [replace(one, features=one.features[:, :96]) for one in answers]
    ShardWriter(tmp_path / "without", DATA).write(without)
    found = {}
    for name in ("with", "without"):
        data = AnswerSet(tmp_path / name)
        for taught in (0.0, 0.5):
            settings = replace(SETTINGS, objective=Objective(taught=taught))
            fit = new_fit(data, settings)
            counts = [fit.update() for _ in range(3)]
            found[name, taught] = [one.head for one in counts], parameters(fit)
    assert found["without", 0.0][0] == found["without", 0.5][0] == found["with", 0.0][0]
    assert same(found["without", 0.5][1], found["with", 0.0][1])
    assert not same(found["with", 0.5][1], found["with", 0.0][1])


def test_frozen_parts_stay_as_they_are(data: AnswerSet) -> None:
    fit = new_fit(data, replace(SETTINGS, frozen=("_conv.", "candidate_selector.")))
    before = parameters(fit)
    for _ in range(3):
        fit.update()
    for name, value in parameters(fit).items():
        frozen = "_conv." in name or "candidate_selector." in name
        assert torch.equal(value, before[name]) == frozen, name


def test_a_head_has_room_for_all_candidates(data: AnswerSet) -> None:
    with pytest.raises(UserError, match="a head of 3 tokens has no 4 candidates"):
        new_fit(data, replace(SETTINGS, frequent=2, drawn=1))
    assert new_fit(data, replace(SETTINGS, frequent=4, drawn=0)).update().blocks > 0


def test_lessons_of_one_kind_are_learned_in_one_pass_up_to_some_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lesson(number: int, block: int, last: bool) -> Lesson:
        one = answer(number)
        kept = one.features[:, :48] if last else None
        return Lesson(one, blocks_at(one, torch.tensor([9, 20]), block), kept)

    kinds = [(3, True), (6, True), (3, False), (3, True), (6, True)]
    lessons = [lesson(number, *kind) for number, kind in enumerate(kinds)]
    numbers = {id(lesson): number for number, lesson in enumerate(lessons)}

    def found() -> list[list[int]]:
        return [[numbers[id(one)] for one in group] for group in learned_together(lessons)]

    assert found() == [[2], [0, 3], [1, 4]]
    monkeypatch.setattr("draftwalk.train.fit._ROWS_OF_A_PASS", 1.5 * lessons[1].cost())
    assert found() == [[2], [0, 3], [1], [4]]


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_products_are_as_exact_as_asked_while_it_learns_and_as_before_afterwards(
    data: AnswerSet, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watch(*args: object, **named: object) -> Losses:
        seen.append(torch.get_float32_matmul_precision())
        if len(seen) > 1:
            raise KeyboardInterrupt
        return losses(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("draftwalk.train.fit.losses", watch)
    before = torch.get_float32_matmul_precision()
    settings = replace(SETTINGS, lengths=(), precision=precision)
    fit = new_fit(data, settings)
    fit.update()
    assert torch.get_float32_matmul_precision() == before
    with pytest.raises(KeyboardInterrupt):
        fit.update()
    assert torch.get_float32_matmul_precision() == before
    assert seen == [precision, precision]


def test_less_exact_products_learn_the_same(data: AnswerSet) -> None:
    """Where the processor has no units for them, exactly the same."""
    found = []
    for precision in ("highest", "medium"):
        fit = new_fit(data, replace(SETTINGS, precision=precision))
        found.append([fit.update().loss for _ in range(6)])
    assert found[1] == pytest.approx(found[0], rel=0.02)
    assert found[0][-1] != found[0][0]


def test_nothing_but_loops_is_refused(tmp_path: Path) -> None:
    looping = replace(answer(1), facts=replace(FACTS, loop=25))
    ShardWriter(tmp_path, replace(DATA, whole=True)).write([looping])
    with pytest.raises(UserError, match="loop"):
        new_fit(AnswerSet(tmp_path))


def test_loops_are_not_learned(tmp_path: Path) -> None:
    looping = replace(answer(1), facts=replace(FACTS, loop=25))
    for whole, usable in ((True, [1]), (False, [0, 1])):
        facts = replace(DATA, whole=whole)
        folder = tmp_path / str(whole)
        ShardWriter(folder, facts).write([looping, answer(2)])
        assert usable_answers(AnswerSet(folder)) == usable


def test_frequent_tokens_are_those_the_target_says(data: AnswerSet) -> None:
    counts = torch.zeros(160)
    for one in data:
        counts += torch.bincount(one.tokens[one.learned], minlength=160)
    found = frequent_tokens(data, 12, 160)
    assert found.tolist() == sorted(found.tolist())
    rest = counts.clone()
    rest[found] = 0
    assert counts[found].min() >= rest.max()


def test_data_that_grew_joins_what_is_still_to_come() -> None:
    first = DataOrder(1, list(range(10)))
    taken = first.take(6)
    grown = DataOrder(1, list(range(14)))
    grown.load(first.state())
    rest = grown.take(8)
    assert sorted(taken + rest) == list(range(14))
    assert sorted(grown.take(14)) == list(range(14))


_WORKER = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_fit import RATES, SETTINGS, learner, replace, SHAPE
from draftwalk.train.fit import Fit
from draftwalk.train.processes import started_by_torchrun
from draftwalk.train.schedule import Schedule
from draftwalk.train.shards import AnswerSet
from safetensors.torch import save_file
torch.set_num_threads(1)
with started_by_torchrun(torch.device("cpu")) as processes:
    data = AnswerSet(Path(sys.argv[2]))
    settings = replace(SETTINGS, answers=4)
    fit = Fit(learner(SHAPE, lively=False), data, settings, Schedule(warm_up=2), processes)
    for _ in range(3):
        counts = fit.update()
    if processes.first:
        values = {k: v.detach() for k, v in fit.drafter.parameters.items()}
        numbers = torch.tensor([counts.loss, counts.blocks, *counts.head, *counts.accepted])
        save_file({**values, "counts": numbers}, sys.argv[3])
"""


def test_more_processes_than_answers_are_refused(data: AnswerSet) -> None:
    with pytest.raises(UserError, match="4 processes cannot share the 3 answers"):
        Fit(learner(), data, SETTINGS, Schedule(), Processes(0, 4))


def test_processes_share_every_item_once_and_about_evenly() -> None:
    costs = [8, 3, 3, 8, 4, 3, 3, 4]
    numbers = range(len(costs))
    shares = [Processes(rank, 2).share(numbers, lambda n: costs[n]) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == list(numbers)
    assert [sum(costs[n] for n in share) for share in shares] == [18, 18]


def test_two_processes_give_the_result_of_one(data: AnswerSet, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    script = tmp_path / "worker.py"
    script.write_text(_WORKER)
    results = []
    here = Path(__file__).parent
    paths = f"{here.parent}{os.pathsep}{here}"
    for count in (1, 2):
        out = tmp_path / f"{count}.safetensors"
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        command = [sys.executable, *(launch if count > 1 else [])]
        done = subprocess.run(
            [*command, str(script), str(here), str(data.folder), str(out)],
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        results.append(load_file(out))
    one, two = results
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], atol=2e-5, rtol=2e-4)
