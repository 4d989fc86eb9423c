"""What is damaged, or could not be loaded, is not written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from draftwalk.convert import convert, mix_of
from draftwalk.errors import CheckpointError, UserError
from draftwalk.models import open_model
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.quant.integers import I64
from draftwalk.weights import (
    pack_integers,
    pack_tensor,
)
from support.models import MadeCheckpoint
from support.plain_conversion import PLAIN, drafter


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    made = drafter()
    values = made.tensors["fc.weight"].unpack().copy()
    values[3, 5] = np.nan
    broken = replace(
        made, tensors={**made.tensors, "fc.weight": pack_tensor("fc.weight", values, F32)}
    )
    for outtype in ("q8_0", "f16", "bf16", "q4_0", "f32"):
        options = replace(PLAIN, outtype=mix_of(outtype))
        with pytest.raises(CheckpointError, match=r"fc\.weight has values that are not finite"):
            convert(broken, tmp_path / "x.gguf", "gguf", options)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("outtype", ["f16", "q8_0", "q4_1"])
def test_values_that_do_not_fit(outtype: str, tmp_path: Path) -> None:
    made = drafter()
    values = made.tensors["fc.weight"].unpack() * np.float32(1e9)
    large = replace(
        made, tensors={**made.tensors, "fc.weight": pack_tensor("fc.weight", values, F32)}
    )
    with pytest.raises(CheckpointError, match=r"fc\.weight has values too large"):
        convert(large, tmp_path / "x.gguf", "gguf", replace(PLAIN, outtype=mix_of(outtype)))
    convert(large, tmp_path / "x.gguf", "gguf", replace(PLAIN, outtype=mix_of("bf16")))


def test_a_row_for_the_mask_token_is_not_lost_silently(tmp_path: Path) -> None:
    convert(drafter(), tmp_path / "source", "hf", PLAIN)
    (tmp_path / "source" / "mask_embedding.pt").write_bytes(b"a pickle")
    with pytest.raises(
        UserError, match=r"source: mask_embedding\.pt, .* is a pickle.*move it away"
    ):
        convert(open_model(tmp_path / "source"), tmp_path / "x.gguf", "gguf", PLAIN)
    assert [entry.name for entry in tmp_path.iterdir()] == ["source"]


def without(made: MadeCheckpoint, name: str) -> MadeCheckpoint:
    return replace(made, tensors={n: raw for n, raw in made.tensors.items() if n != name})


def test_a_drafter_that_is_not_whole_is_not_written(tmp_path: Path) -> None:
    """What could not be loaded is refused, whatever it is to become."""
    made = drafter()
    more = pack_tensor("more.weight", np.ones((4, 4), np.float32), F32)
    square = pack_tensor("norm.weight", np.ones((8, 8), np.float32), F32)
    for broken, message in (
        (without(made, "norm.weight"), r"norm\.weight is missing"),
        (without(made, "fc.weight"), r"tensor fc\.weight is missing"),  # yet no target
        (without(made, "layers.1.mlp.up_proj.weight"), r"1\.mlp\.up_proj\.weight is missing"),
        (replace(made, tensors={**made.tensors, more.name: more}), r"more\.weight not used"),
        (replace(made, tensors={**made.tensors, square.name: square}), r"expected \[64\]"),
    ):
        for to, name in (("gguf", "x.gguf"), ("hf", "x")):
            with pytest.raises(CheckpointError, match=message):
                convert(broken, tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([5, 7, 5, 8], "names token 5 twice"),
        ([5, 7, -1, 8], "names token -1"),
        ([5, 7, 96, 8], "names token 96"),
        ([5, 7, 8], r"shape \[3\], expected \[4\]"),
    ],
)
def test_a_map_of_tokens_that_is_none_is_not_written(
    ids: list[int], message: str, tmp_path: Path
) -> None:
    made = drafter(draft_vocab_size=4)
    head = pack_tensor("lm_head.weight", np.ones((4, 64), np.float32), F32)
    offsets = pack_integers("d2t", np.array(ids) - np.arange(len(ids)), I64())
    reduced = replace(made, tensors={**made.tensors, head.name: head, "d2t": offsets})
    for to, name in (("gguf", "x.gguf"), ("hf", "x")):
        with pytest.raises(CheckpointError, match=message):
            convert(reduced, tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
    assert not [*tmp_path.iterdir()]
