"""What must hold on a GPU as on a CPU: the loop's promise, and what training computes.

`make gpu` runs it. Without a GPU the CPU does what is no comparison with it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from draftwalk.engine import Engine, Placement, load
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.train.fit import Fit, FitSettings
from draftwalk.train.objective import Objective
from draftwalk.train.optimisers import OptimiserSettings
from draftwalk.train.schedule import Schedule
from draftwalk.train.shards import AnswerSet, ShardWriter
from support.talking_model import write_drafter, write_target
from support.training import DATA, answer, learner

COUNT = 80
COUPLED = (Sampling(), Sampling(temperature=0.8, seed=5))
REJECTION = Sampling(temperature=0.8, seed=5, rule="rejection")
PROMPTS = ("Hello there", "What is it?", "1, 2, 3", "A longer prompt than the others before it")


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda":
        request.getfixturevalue("gpu")
    return torch.device(request.param)


@pytest.fixture
def data(tmp_path: Path) -> AnswerSet:
    """Answers with outputs of the target's last layer, number 2, beside the taps."""
    facts = replace(DATA, taps=(0, 1, 2))
    ShardWriter(tmp_path / "data", facts).write([answer(n, 20 + n, taps=3) for n in range(7)])
    return AnswerSet(tmp_path / "data")


@pytest.fixture
def engine(tmp_path: Path, device: torch.device) -> Engine:
    target, drafter = write_target(tmp_path / "target.gguf"), write_drafter(tmp_path / "drafter")
    place = Placement(device.type, torch.float64, context=256, back_end="torch")
    return load(target, drafter, place)


@pytest.mark.parametrize("window", [Window(), Window(auto=True)], ids=["whole", "auto"])
def test_texts_with_a_drafter_are_texts_without(engine: Engine, window: Window) -> None:
    plain = engine.plain()
    prompts = [engine.tokenizer.encode(prompt) for prompt in PROMPTS]
    for sampling in COUPLED:
        expected = plain.complete(prompts, sampling, Limits(COUNT))
        found = engine.complete(prompts, sampling, Limits(COUNT), window)
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        assert sum(len(step.draft) for one in found for step in one.steps) > 0


def test_a_seed_gives_one_text_under_rejection(engine: Engine) -> None:
    prompts = [engine.tokenizer.encode(prompt) for prompt in PROMPTS]
    texts = [
        [one.tokens for one in engine.complete(some, REJECTION, Limits(COUNT))]
        for some in (prompts, prompts[:2])
    ]
    assert texts[0][:2] == texts[1]


@pytest.fixture
def gpu() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return torch.device("cuda")


def fitted(data: AnswerSet, device: torch.device, updates: int, taught: float) -> tuple[Fit, float]:
    settings = FitSettings(
        answers=3,
        anchors=6,
        lengths=(3, 4, 6),
        frequent=20,
        drawn=10,
        optimiser=OptimiserSettings(lr=0.01, vector_lr=0.01),
        objective=Objective(taught=taught),
        precision="highest",
    )
    fit = Fit(learner(lively=False, device=device), data, settings, Schedule(warm_up=2))
    losses = [fit.update().loss for _ in range(updates)]
    return fit, losses[-1]


@pytest.mark.parametrize("taught", [0.0, 0.5])
def test_training_computes_what_it_does_on_a_cpu(
    data: AnswerSet, gpu: torch.device, taught: float
) -> None:
    (here, loss), (there, expected) = (
        fitted(data, one, 3, taught) for one in (gpu, torch.device("cpu"))
    )
    assert loss == pytest.approx(expected, rel=1e-4)
    for name, value in there.drafter.parameters.items():
        mine = here.drafter.parameters[name]
        assert mine.device.type == gpu.type
        torch.testing.assert_close(mine.cpu(), value, rtol=1e-2, atol=2e-3)


def test_a_short_fit_learns(data: AnswerSet, device: torch.device) -> None:
    _, first = fitted(data, device, 1, 0.0)
    _, last = fitted(data, device, 60, 0.0)
    assert last < 0.6 * first
