"""Which tensor gets which format: llama.cpp's rules, its fallbacks, and a user's overrides."""

from __future__ import annotations

import numpy as np
import pytest

from draftwalk.convert.types import MIXES, choose, mix_of, override_of
from draftwalk.errors import UserError


def formats(mix: str, width: int, names: list[str], depth: int = 8, *overrides: str) -> list[str]:
    asked = [override_of(text) for text in overrides]
    return [
        choose(name, (64, width), MIXES[mix], depth, False, asked).format.NAME for name in names
    ]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("blk.0.attn_norm.weight", (256,)),
        ("enc.output_norm.weight", (256,)),
        ("blk.0.attn_conv_base", (2, 2, 256)),
        ("blk.3.attn_sinks.weight", (4,)),
        ("blk.3.attn_q.bias", (256,)),
        ("fc.scale", (1,)),
    ],
)
def test_all_but_matrices_stay_floats(mix: str, name: str, shape: tuple[int, ...]) -> None:
    assert choose(name, shape, MIXES[mix], 4, False).format.NAME == "F32"


@pytest.mark.parametrize(
    ("mix", "widths"),
    [
        ("Q8_0", {256: "Q8_0", 96: "Q8_0", 40: "F16"}),
        ("Q4_0", {256: "Q4_0", 96: "Q4_0", 40: "F16"}),
        ("Q5_1", {256: "Q5_1", 96: "Q5_1", 40: "F16"}),
        ("Q4_K_M", {512: "Q4_K", 576: "Q5_0", 40: "F16"}),
        ("Q5_K_M", {512: "Q5_K", 576: "Q5_1", 40: "F16"}),
        ("Q6_K", {512: "Q6_K", 576: "Q8_0", 40: "F16"}),
        ("BF16", {256: "BF16", 40: "BF16"}),
    ],
)
def test_fallbacks(mix: str, widths: dict[int, str]) -> None:
    for width, expected in widths.items():
        choice = choose("blk.0.attn_q.weight", (64, width), MIXES[mix], 4, False)
        assert expected == choice.format.NAME
        assert (choice.wanted == expected) == (width % 256 == 0 or choice.wanted == expected)
        assert choice.wanted == MIXES[mix].format


@pytest.mark.parametrize("depth", range(1, 20))
@pytest.mark.parametrize("mix", ["Q4_K_M", "Q5_K_M"])
def test_layers_with_more_bits(mix: str, depth: int) -> None:
    for part in ("attn_v", "ffn_down"):
        names = [f"blk.{n}.{part}.weight" for n in range(depth)]
        more = [
            n < depth // 8 or n >= 7 * depth // 8 or (n - depth // 8) % 3 == 2 for n in range(depth)
        ]
        usual = MIXES[mix].format
        assert formats(mix, 256, names, depth) == ["Q6_K" if one else usual for one in more]
    others = ["blk.0.attn_q.weight", "blk.0.ffn_up.weight", "fc.weight", "selector_hidden.weight"]
    others += ["blk.0.ffn_conv_proj.weight", "blk.0.attn_output.weight"]
    assert set(formats(mix, 256, others, depth)) == {MIXES[mix].format}


@pytest.mark.parametrize(
    ("mix", "width", "head"),
    [
        ("Q4_0", 256, "Q6_K"),
        ("Q4_0", 96, "Q8_0"),  # Q6_K does not divide it
        ("Q4_0", 40, "F16"),
        ("Q8_0", 256, "Q8_0"),
        ("Q4_K_M", 256, "Q6_K"),
        ("Q4_K_M", 96, "Q8_0"),
        ("F16", 256, "F16"),
    ],
)
def test_the_head(mix: str, width: int, head: str) -> None:
    assert formats(mix, width, ["output.weight"]) == [head]
    tied = choose("token_embd.weight", (64, width), MIXES[mix], 4, True)
    assert head == tied.format.NAME


def test_overrides_are_searched_for_and_fall_back_too() -> None:
    names = ["blk.0.attn_v.weight", "blk.1.attn_v.weight", "blk.1.attn_q.weight", "output.weight"]
    asked = (r"blk\.1\.attn=q8_0", "attn_v=F16", "output=Q4_K")
    assert formats("Q4_0", 256, names, 2, *asked) == ["F16", "Q8_0", "Q8_0", "Q4_K"]
    assert formats("Q4_0", 96, names, 2, *asked) == ["F16", "Q8_0", "Q8_0", "Q5_0"]


@pytest.mark.parametrize(
    "text", ["attn_v", "attn_v=", "=Q8_0", "attn_v=Q9_9", "(=Q8_0", "x=Q4_K_M"]
)
def test_overrides_that_say_nothing(text: str) -> None:
    with pytest.raises(UserError, match="--tensor"):
        override_of(text)


def test_types_are_named_as_people_write_them() -> None:
    assert mix_of("q4_k_m").number == 15
    with pytest.raises(UserError, match="no type 'Q4_K_L'"):
        mix_of("Q4_K_L")
    assert len({mix.number for mix in MIXES.values()}) == len(MIXES)
    assert np.all([mix.quantised == (name[0] == "Q") for name, mix in MIXES.items()])
