"""Targets equal transformers, through safetensors and through GGUF of the same weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from draftwalk.models import open_model
from draftwalk.ops.torch import TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.target import PassOutput
from draftwalk.target.decoder import Decoder
from draftwalk.target.load import build_target

FIXTURES = Path(__file__).parent.parent / "fixtures" / "targets"
MODELS = sorted(path.name for path in FIXTURES.iterdir())
CPU = torch.device("cpu")


def load(path: Path, dtype: torch.dtype = torch.float32) -> Decoder:
    return build_target(open_model(path), TorchOperations(CPU, dtype))


def run(target: Decoder, ids: list[int], chunks: list[int]) -> PassOutput:
    """All rows' logits and features, read in chunks."""
    state = target.new_state()
    state.open(0)
    taps = tuple(range(target.depth))
    parts, start = [], 0
    for size in chunks:
        rows = Rows.lay_out([Rowset(0, ids[start : start + size], start)], CPU)
        with pass_over(state, rows) as kept:
            out = target.forward(rows, state, taps)
            kept[0] = size
        parts.append(out)
        start += size
    assert start == len(ids)
    logits = torch.cat([part.logits for part in parts])
    return PassOutput(logits, torch.cat([part.features for part in parts]))


@pytest.mark.parametrize("prompt", ["0", "1"])
@pytest.mark.parametrize("container", ["safetensors", "gguf"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_and_taps_equal_transformers(name: str, container: str, prompt: str) -> None:
    path = FIXTURES / name
    if container == "gguf":
        path = path / "model.gguf"
        if not path.exists():
            assert name == "gemma3-scalar", "every other model has both formats"
            return
    target = load(path)
    expected = load_file(FIXTURES / name / "expected.safetensors")
    ids = expected[f"{prompt}.ids"].tolist()
    out = run(target, ids, [len(ids)])
    torch.testing.assert_close(out.logits, expected[f"{prompt}.logits"], rtol=0, atol=1e-4)
    layers = [*expected[f"{prompt}.hidden_states"][1:-1], expected[f"{prompt}.residual"]]
    torch.testing.assert_close(out.features, torch.cat(layers, dim=1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chunks", [[1] * 40, [7] * 5 + [5], [39, 1], [1, 39], [16, 16, 8]])
def test_any_chunking_gives_the_same_logits(name: str, chunks: list[int]) -> None:
    target = load(FIXTURES / name, torch.float64)
    ids = load_file(FIXTURES / name / "expected.safetensors")["1.ids"].tolist()
    whole = run(target, ids, [40])
    parts = run(target, ids, chunks)
    torch.testing.assert_close(parts.logits, whole.logits, rtol=0, atol=1e-11)
    torch.testing.assert_close(parts.features, whole.features, rtol=0, atol=1e-11)
