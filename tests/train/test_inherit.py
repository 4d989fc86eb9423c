"""New drafters start from the target's last layers."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from draftwalk.draft.config import DrafterConfig
from draftwalk.models import open_model
from draftwalk.train.shape import Shape, new_config, new_tensors
from support.models import FIXTURES, target
from support.training import SHAPE, learner


def started(name: str, shape: Shape, inherit: bool = True) -> dict[str, Tensor]:
    checkpoint, decoder = open_model(FIXTURES / "targets" / name), target(name)
    config = DrafterConfig.read(new_config(shape, checkpoint, decoder.depth), "the drafter")
    draw = torch.Generator().manual_seed(1)
    made = new_tensors(config, checkpoint, decoder.blueprint, draw, inherit)
    return {name: torch.from_numpy(raw.unpack()) for name, raw in made.items()}


def stored(name: str, layer: int, part: str) -> Tensor:
    checkpoint = open_model(FIXTURES / "targets" / name)
    return torch.from_numpy(checkpoint.tensors[f"model.layers.{layer}.{part}.weight"].unpack())


def plainly_normed(x: Tensor) -> Tensor:
    return functional.rms_norm(x, x.shape[-1:], eps=1e-6)


@pytest.mark.parametrize("name", ["llama-rope3", "qwen3"])
def test_a_copied_layer_computes_what_the_targets_does(name: str) -> None:
    depth = target(name).depth
    made = started(name, replace(SHAPE, layers=2))
    x = torch.randn(9, target(name).width, generator=torch.Generator().manual_seed(2))
    for layer, source in ((0, depth - 2), (1, depth - 1)):
        for norm, parts in (
            ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
            ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
        ):
            assert torch.equal(made[f"layers.{layer}.{norm}.weight"], torch.ones(x.shape[1]))
            normed = plainly_normed(x) * stored(name, source, norm)
            for part in parts:
                expected = normed @ stored(name, source, part).T
                mine = plainly_normed(x) @ made[f"layers.{layer}.{part}.weight"].T
                torch.testing.assert_close(mine, expected)
        for part in ("self_attn.o_proj", "mlp.down_proj"):
            assert torch.equal(made[f"layers.{layer}.{part}.weight"], stored(name, source, part))


@pytest.mark.parametrize("taps", [(0, 1), (1, 0)])
def test_the_first_context_is_the_last_tap(taps: tuple[int, int]) -> None:
    made = started("llama-rope3", replace(SHAPE, taps=taps))
    x = torch.randn(50, 2, 48, generator=torch.Generator().manual_seed(3))
    found = x.view(50, -1) @ made["fc.weight"].T
    last = taps.index(1)
    assert functional.cosine_similarity(found, x[:, last]).min() > 0.95
    other = made["fc.weight"].view(48, 2, 48)[:, 1 - last]
    assert other.abs().max() > 0, "the other tap can be learned"


def test_norms_of_queries_and_keys_are_the_targets_or_keep_their_size() -> None:
    for part in ("q_norm", "k_norm"):
        made = started("qwen3", SHAPE)[f"layers.1.self_attn.{part}.weight"]
        assert torch.equal(made, stored("qwen3", target("qwen3").depth - 1, f"self_attn.{part}"))
    made = started("llama-rope3", SHAPE)
    x = plainly_normed(torch.randn(400, 48, generator=torch.Generator().manual_seed(4)))
    for part in ("q", "k"):
        rows = x @ made[f"layers.0.self_attn.{part}_proj.weight"].T
        size = float(rows.square().mean().sqrt())
        norm = made[f"layers.0.self_attn.{part}_norm.weight"]
        torch.testing.assert_close(norm, torch.full_like(norm, size), rtol=0.1, atol=0.0)


def test_a_narrower_mlp_has_the_strongest_channels_and_a_wider_one_more() -> None:
    whole = started("llama-rope3", SHAPE)
    width = len(whole["layers.1.mlp.gate_proj.weight"])
    names = [f"layers.1.mlp.{part}_proj.weight" for part in ("gate", "up", "down")]
    gate, up, down = (whole[name] for name in names)
    strength = gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)
    narrow = started("llama-rope3", replace(SHAPE, mlp=width // 2))
    kept = [int((gate == row).all(1).nonzero()[0]) for row in narrow[names[0]]]
    left_out = sorted(set(range(width)) - set(kept))
    assert len(set(kept)) == width // 2
    assert strength[kept].min() >= strength[left_out].max()
    assert torch.equal(narrow[names[1]], up[kept])
    assert torch.equal(narrow[names[2]], down[:, kept])
    wide = started("llama-rope3", replace(SHAPE, mlp=width + 8))
    assert [len(wide[names[0]]), wide[names[2]].shape[1]] == [width + 8] * 2
    assert torch.equal(wide[names[0]][:width], gate)


@pytest.mark.parametrize("name", ["gemma3"])
def test_a_target_that_is_built_otherwise_gives_nothing(name: str) -> None:
    drawn, made = started(name, SHAPE, inherit=False), started(name, SHAPE)
    assert drawn.keys() == made.keys()
    assert all(torch.equal(drawn[key], made[key]) for key in drawn)


def test_a_drafter_with_more_layers_than_the_target_draws_the_others() -> None:
    depth = target("llama-rope3").depth
    made = started("llama-rope3", replace(SHAPE, layers=depth + 1))
    drawn = started("llama-rope3", replace(SHAPE, layers=depth + 1), inherit=False)
    name = f"layers.{depth}.self_attn.o_proj.weight"
    assert torch.equal(made[name], drawn[name])
    assert learner(replace(SHAPE, layers=depth + 1)).parameters
