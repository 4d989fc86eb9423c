"""The named model on the native back end: the same bits however its passes and threads are cut."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from draftwalk.engine import Engine, Placement, load
from draftwalk.prompt import Message
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.target.decoder import Decoder
from support.runner import Runner, in_chunks

pytest.importorskip("draftwalk.ops.native")
PROMPTS = Path(__file__).parent.parent / "prompts"
LENGTH = 320


@cache
def engine(threads: int) -> Engine:
    placement = Placement(context=1024, threads=threads, back_end="native")
    return load("smollm2-135m", placement=placement)


def target(threads: int) -> Decoder:
    return engine(threads).target


def prompts(suite: str) -> list[list[int]]:
    lines = (PROMPTS / f"{suite}.jsonl").read_text().splitlines()
    texts = [json.loads(line)["turns"][0] for line in lines]
    return [engine(1).encode_chat([Message("user", text)]) for text in texts]


@cache
def text() -> list[int]:
    suites = ("gsm8k", "humaneval", "mtbench")
    joined = [token for suite in suites for prompt in prompts(suite) for token in prompt]
    assert len(joined) >= LENGTH
    return joined[:LENGTH]


@cache
def reference() -> Tensor:
    """One row a pass, one thread."""
    return in_chunks(target(1), text(), 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunk", [7, 64, 512])
def test_chunks(threads: int, chunk: int) -> None:
    assert torch.equal(in_chunks(target(threads), text(), chunk), reference())


def test_widths() -> None:
    """Every width, most of whose rows are then thrown away."""
    runner = Runner(target(2))
    start = 0
    for width in (*range(1, 33), 8, 1, 32):
        (got,) = runner.step({0: text()[start : start + width]}, kept=width % 5)
        assert torch.equal(got, reference()[start : start + width]), width
        start = runner.lengths[0]


@pytest.mark.parametrize("size", [2, 5, 16, 64])
def test_batches(size: int) -> None:
    runner = Runner(target(2))
    for turn in range(3):
        parts = {}
        for slot in range(size):
            start = runner.lengths.get(slot, 0)
            parts[slot] = text()[start : start + 1 + (5 * slot + 3 * turn) % 11]
        for (slot, part), got in zip(parts.items(), runner.step(parts), strict=True):
            start = runner.lengths[slot] - len(part)
            assert torch.equal(got, reference()[start : start + len(part)]), (turn, slot)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_speculation_changes_no_text(temperature: float) -> None:
    asked = [prompts(suite)[0] for suite in ("gsm8k", "humaneval", "mbpp", "mtbench")]
    sampling, limits = Sampling(temperature=temperature, seed=11), Limits(max_tokens=64)
    plain = engine(2).plain().complete(asked, sampling, limits)
    for window in (Window(), Window(auto=True)):
        drafted = engine(2).complete(asked, sampling, limits, window)
        assert sum(result.timings.draft_n_accepted for result in drafted) > 0
        for ours, theirs in zip(drafted, plain, strict=True):
            assert (ours.tokens, ours.text) == (theirs.tokens, theirs.text)
