"""Starting values from the target: a new drafter's layers are copies of the target's last ones.

They know how to turn what the last taps say into the next token, and what is left to learn is to do
without the layers between. The first context feature is the last tap itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from draftwalk.draft.config import DrafterConfig
from draftwalk.target.blueprint import Blueprint
from draftwalk.weights import Checkpoint

_NOISE = 0.1  # of usual random values in fc, so that the other taps are not left out


def inherited(
    config: DrafterConfig, target: Checkpoint, blueprint: Blueprint, drawn: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Starting values, of which `drawn` has what is not inherited.

    A target with norms behind its sublayers, or another activation, has nothing to give. A norm's
    weights become part of the matrices behind it: contexts share one norm in a drafter. Where an
    MLP is narrower, it has the strongest channels. Biases have no place.

    Args:
        config: the new drafter's.
        target: the checkpoint.
        blueprint: how it is built.
        drawn: random values, by canonical name.
    """
    made = dict(drawn)
    if blueprint.post_norms or blueprint.activation != "silu":
        return made
    depth = min(config.sizes.depth, blueprint.sizes.depth)
    for layer in range(depth):
        source = blueprint.sizes.depth - depth + layer
        made |= _layer(_Source(target, blueprint, source), f"layers.{layer}", config, drawn)
    width, last = blueprint.sizes.width, config.taps.index(max(config.taps))
    fc = _NOISE * drawn["fc.weight"]
    fc[:, last * width : (last + 1) * width] += torch.eye(width)
    made["fc.weight"] = fc
    return made


class _Source:
    """A layer of the target."""

    def __init__(self, target: Checkpoint, blueprint: Blueprint, number: int) -> None:
        self._target = target
        self._offset = blueprint.norm_offset
        self._prefix = f"model.layers.{number}"
        self.qk_norm = blueprint.qk_norm

    def matrix(self, name: str) -> Tensor:
        return torch.from_numpy(self._target.tensors[f"{self._prefix}.{name}.weight"].unpack())

    def norm(self, name: str) -> Tensor:
        return self.matrix(name) + self._offset


def _layer(
    source: _Source, layer: str, config: DrafterConfig, drawn: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    made: dict[str, Tensor] = {}
    before = source.norm("input_layernorm")
    for part in ("q", "k", "v"):
        name = f"self_attn.{part}_proj"
        made[f"{layer}.{name}.weight"] = source.matrix(name) * before
    made[f"{layer}.self_attn.o_proj.weight"] = source.matrix("self_attn.o_proj")
    for part in ("q", "k"):
        name = f"self_attn.{part}_norm"
        matrix = made[f"{layer}.self_attn.{part}_proj.weight"]
        made[f"{layer}.{name}.weight"] = (
            source.norm(name) if source.qk_norm else _size(matrix, config.sizes.head_dim)
        )
    before = source.norm("post_attention_layernorm")
    gate, up = (source.matrix(f"mlp.{part}_proj") * before for part in ("gate", "up"))
    down = source.matrix("mlp.down_proj")
    strength = gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)
    count = min(config.sizes.mlp_width, len(strength))
    kept = strength.topk(count).indices.sort().values
    for part, rows in (("gate", gate), ("up", up)):
        name = f"{layer}.mlp.{part}_proj.weight"
        made[name] = torch.cat([rows[kept], drawn[name][count:]])
    name = f"{layer}.mlp.down_proj.weight"
    made[name] = torch.cat([down[:, kept], drawn[name][:, count:]], dim=1)
    return made


def _size(matrix: Tensor, head_dim: int) -> Tensor:
    """A norm's weights [D] that keep how large rows of its output usually are."""
    return torch.full((head_dim,), float(matrix.norm()) / len(matrix) ** 0.5)
