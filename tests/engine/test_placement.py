from pathlib import Path

import pytest
import torch

from draftwalk.engine import Placement, load
from draftwalk.errors import UserError
from draftwalk.ops.choice import extension_fault
from draftwalk.ops.torch import TorchOperations
from draftwalk.settings import Limits, Sampling

needs_extension = pytest.mark.skipif(extension_fault() is not None, reason="no extension")
Pair = tuple[Path, Path]


@needs_extension
def test_the_placement_says_what_computes(pair: Pair) -> None:
    from draftwalk.ops.native import NativeOperations

    ops = load(*pair, Placement(threads=3)).target.ops
    assert isinstance(ops, NativeOperations)
    assert (ops.threads, ops.kv) == (3, "f16")
    assert isinstance(load(*pair, Placement(back_end="torch")).target.ops, TorchOperations)
    assert isinstance(load(*pair, Placement(dtype=torch.float64)).target.ops, TorchOperations)
    with pytest.raises(UserError, match="multiple of 32"):
        load(*pair, Placement(kv="q8"))
    with pytest.raises(UserError, match="float32 on the cpu"):
        load(*pair, Placement(dtype=torch.float64, back_end="native"))


@needs_extension
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_texts_do_not_depend_on_threads_chunks_or_the_drafter(
    pair: Pair, temperature: float
) -> None:
    prompts = [[(5 * n + i * i) % 90 for i in range(3 + 40 * n)] for n in range(4)]
    texts = []
    for placement in (Placement(threads=1), Placement(threads=2, chunk=7)):
        engine = load(*pair, placement)
        for one in (engine, engine.plain()):
            for parallel in (1, 4):
                answers = one.complete(
                    prompts,
                    Sampling(temperature=temperature, seed=11),
                    Limits(max_tokens=30),
                    parallel=parallel,
                )
                assert all(answer.error is None for answer in answers)
                texts.append([answer.tokens for answer in answers])
    assert all(text == texts[0] for text in texts)


@needs_extension
def test_torch_has_its_threads_back_after_a_step(pair: Pair) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        engine = load(*pair, Placement(threads=2))
        assert torch.get_num_threads() == 2
        for _ in engine.stream([1, 2, 3], Sampling(), Limits(max_tokens=3)):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
