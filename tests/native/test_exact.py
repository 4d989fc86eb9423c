"""The logits of a row are the same bits however its pass, its prompt and the threads are cut."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.target.decoder import Decoder
from support.golden import check_golden
from support.kernels import EVERY, below, native
from support.matrices import LAYOUTS
from support.models import CPU
from support.quantised import ARCHITECTURES, VOCABULARY, quantised_target
from support.runner import Runner, in_chunks

operations = pytest.importorskip("draftwalk.ops.native")
BEST = native.instruction_sets()[0]
LENGTH = 200  # more than three pages, and five windows


def tokens(seed: int, count: int = LENGTH) -> list[int]:
    return below(seed, VOCABULARY, count).tolist()


@cache
def model(
    layout: str, architecture: str, threads: int = 1, name: str = BEST, kv: str = "f16"
) -> Decoder:
    ops = operations.NativeOperations(threads, instruction_set=name, kv=kv)
    return quantised_target(layout, architecture, ops)


@cache
def reference(layout: str, architecture: str, seed: int, kv: str = "f16") -> Tensor:
    """One row a pass, one thread."""
    return in_chunks(model(layout, architecture, kv=kv), tokens(seed), 1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kv", ["f16", "q8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks(architecture: str, kv: str, threads: int) -> None:
    target = model("Q4_1", architecture, threads, kv=kv)
    for chunk in (7, 64, 512):
        got = in_chunks(target, tokens(1), chunk)
        assert torch.equal(got, reference("Q4_1", architecture, 1, kv)), chunk


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout: str) -> None:
    architecture = ARCHITECTURES[LAYOUTS.index(layout) % len(ARCHITECTURES)]
    expected = reference(layout, architecture, 2)
    for threads, chunk in ((2, 7), (1, 33), (2, 512)):
        assert torch.equal(
            in_chunks(model(layout, architecture, threads), tokens(2), chunk), expected
        )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_widths(architecture: str) -> None:
    """What a row says does not depend on how many drafts stand behind it, kept or not."""
    expected, text = reference("Q8_0", architecture, 3), tokens(3)
    runner = Runner(model("Q8_0", architecture, threads=2))
    start = 0
    for width in (*range(1, 33), 2, 9, 31):
        if start + width > LENGTH:
            break
        (got,) = runner.step({0: text[start : start + width]}, kept=width % 3)
        assert torch.equal(got, expected[start : start + width]), width
        start = runner.lengths[0]


@pytest.mark.parametrize("size", range(1, 65))
def test_batches(size: int) -> None:
    """Sequences of unequal lengths and widths in one pass, each as if it were alone."""
    turns = 6 if size in {2, 3, 8, 17, 64} else 2
    architecture = ARCHITECTURES[size % len(ARCHITECTURES)]
    target = model("Q4_0", architecture, threads=1 + size % 2)
    seeds = [slot % 4 for slot in range(size)]
    expected = {seed: reference("Q4_0", architecture, seed) for seed in set(seeds)}
    runner = Runner(target)
    for turn in range(turns):
        parts = {}
        for slot in range(size):
            start = runner.lengths.get(slot, 0)
            width = 1 + (7 * slot + 13 * turn) % 24
            parts[slot] = tokens(seeds[slot])[start : start + width]
        for (slot, part), got in zip(parts.items(), runner.step(parts), strict=True):
            start = runner.lengths[slot] - len(part)
            assert torch.equal(got, expected[seeds[slot]][start : start + len(part)]), (turn, slot)


def test_a_row_that_is_not_finite_stays_alone() -> None:
    """Its sequence's logits are NaN, and nobody else's bits change."""
    target = model("Q4_0", ARCHITECTURES[0], 2)
    expected = reference("Q4_0", ARCHITECTURES[0], 0)
    runner = Runner(target)
    runner.step({0: tokens(0)[:70], 1: tokens(1)[:70]})
    rowsets = [Rowset(0, tokens(0)[70:74], 70), Rowset(1, [-1, 5], 70)]
    spoiled = torch.full((1, 256), float("inf"))
    rows = Rows.lay_out(rowsets, CPU, spoiled)
    with pass_over(runner.state, rows):
        logits = target.forward(rows, runner.state, ()).logits
    assert torch.equal(logits[:4], expected[70:74])
    assert logits[4:].isnan().all()


@EVERY
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kv", ["f16", "q8"])
def test_instruction_sets_and_machines(name: str, architecture: str, kv: str) -> None:
    """The same bits as wherever the hashes were recorded."""
    target = model("Q5_1", architecture, 2, name, kv)
    check_golden(f"logits {architecture} {kv}", in_chunks(target, tokens(9, 70), 24).numpy())


def test_a_thread_that_flushes_subnormals() -> None:
    """What another library set in the calling thread does not reach the kernels."""
    expected, text = reference("Q4_0", ARCHITECTURES[0], 4), tokens(4)
    torch.set_flush_denormal(True)
    try:
        got = in_chunks(model("Q4_0", ARCHITECTURES[0], 2), text, 64)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(got, expected)
