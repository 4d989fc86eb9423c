"""Files of a type have the formats llama.cpp's quantiser gives them, and no larger errors.

Recorded by referee/drafter_quantisation.py.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from draftwalk.convert.types import MIXES, choose
from draftwalk.draft.pairing import packaged_drafters
from draftwalk.weights import GgufFile, RawTensor, pack_tensor
from support.interchange_cases import CASES, write
from support.models import FIXTURES

KINDS = [name for name, mix in MIXES.items() if mix.quantised]
LAYERS = 3
# Small enough for every run; the others are of the same kinds.
PACKED = (
    "blk.0.attn_v.weight",
    "blk.1.attn_conv_proj.weight",
    "blk.2.attn_v.weight",
    "selector_hidden.weight",
)
LARGE = "blk.1.ffn_down.weight"  # the only kind whose rows 256 divides


@cache
def recorded() -> dict[str, dict[str, tuple[str, float]]]:
    parsed = json.loads((FIXTURES / "llama_cpp_quantisation.json").read_text())
    return {kind: {k: (v[0], v[1]) for k, v in one.items()} for kind, one in parsed.items()}


@cache
def tensors() -> dict[str, RawTensor]:
    return GgufFile(packaged_drafters()[0]).tensors


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RawTensor]:
    """Whose rows of 256 the larger blocks divide."""
    case = next(case for case in CASES if case.name == "types")
    return GgufFile(write(case, "f32", tmp_path_factory.mktemp("wide") / "x.gguf")).tensors


@pytest.mark.parametrize("kind", KINDS)
def test_formats_are_those_of_llama_cpp(kind: str, wide: dict[str, RawTensor]) -> None:
    for source, depth, there in (("packaged", LAYERS, tensors()), ("wide", 2, wide)):
        theirs = recorded()[f"{source}.{kind}"]
        assert theirs.keys() == there.keys()
        for name, (format_, _) in theirs.items():
            choice = choose(name, there[name].shape, MIXES[kind], depth, False)
            assert format_ == choice.format.NAME, name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*PACKED, LARGE])
def test_errors_are_no_larger_than_llama_cpp_s(kind: str, name: str) -> None:
    values = tensors()[name].unpack()
    format_ = choose(name, values.shape, MIXES[kind], LAYERS, False).format
    back = pack_tensor(name, values, format_).unpack().astype(np.float64)
    ours, theirs = np.square(back - values).sum(), recorded()[f"packaged.{kind}"][name][1]
    # Compilers may fuse ggml's product and sum, so a value halfway between two codes may go either
    # way there.
    assert ours <= theirs * (1 + 1e-6)
