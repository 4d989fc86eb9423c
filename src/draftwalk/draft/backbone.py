"""The layers that DFlash and DFlash2 share: context injection and the block stream.

A block is [anchor, mask, mask, ...] at the places after the committed ones; row i predicts the
token at its own place. The context's K/V come from the target's features, projected once per kept
row; the block's own K/V are written behind them and dropped after the pass. DFlash2 adds a
convolution on both sides of each sublayer. The mathematics is that of the public `dflash` package.
"""

from __future__ import annotations

import math

from torch import Tensor

from draftwalk.draft.config import DrafterConfig
from draftwalk.errors import CheckpointError
from draftwalk.layers.attention import Attention, Heads
from draftwalk.layers.block import Block
from draftwalk.layers.mlp import GatedMlp
from draftwalk.layers.parts import Builder
from draftwalk.layers.sublayer import Convolution, Sublayer
from draftwalk.ops import Linear, Matrix, Operations, RopeTable, Visibility
from draftwalk.ops.memory import KVPages, KVTensors, KVType, Memory
from draftwalk.rows import Rows
from draftwalk.state.attention import AttentionState
from draftwalk.target.rope import half_split_order, rope_table
from draftwalk.weights.source import TensorSource


class Backbone:
    """The drafter's network; its methods are parts of passes.

    Args:
        config: the checkpoint's configuration.
        tensors: its weights.
        ops: the back end.
        embedding: [V, H] table the block's rows come from.
        context: places of text to prepare for; a block reaches beyond them.
        kv: how K/V are stored; the back end's usual way by default.
    """

    def __init__(
        self,
        config: DrafterConfig,
        tensors: TensorSource,
        ops: Operations,
        embedding: Matrix,
        context: int,
        kv: KVType | None = None,
    ) -> None:
        self.config = config
        self._kv = kv
        self.context = min(context + config.block, config.sizes.context)
        self._ops = ops
        self._embedding = embedding
        rope = ops.rope(*rope_table(config.rope, self.context))
        width, joined = config.sizes.width, len(config.taps) * config.target_width
        builder = Builder(tensors, ops, config.sizes.norm_eps)
        self._fusion = builder.linear("fc", width, joined)
        self._fusion_norm = builder.norm("hidden_norm", width)
        self._fusion_eps = config.sizes.norm_eps / _square_of_scale(tensors)
        self._blocks = [_build(config, n, rope, builder) for n in range(config.sizes.depth)]
        self._norm = builder.norm("norm", width)

    def new_state(self) -> AttentionState:
        """An empty context."""
        sizes = self.config.sizes
        windows, heads = self.config.windows, sizes.kv_heads
        return AttentionState(windows, heads, sizes.head_dim, self._ops, self._kv)

    def inject(self, memory: Memory, rows: Rows, features: Tensor) -> list[KVPages | KVTensors]:
        """Makes the rows' features [T, F * H] context; each layer's K/V."""
        ops = self._ops
        (fused,) = ops.linear(features, (self._fusion,))
        context = ops.norm(fused, self._fusion_norm, self._fusion_eps)
        return [
            block.attention.inject(ops, context, memory.layer(index), rows)
            for index, block in enumerate(self._blocks)
        ]

    def forward(self, memory: Memory, rows: Rows) -> Tensor:
        """Runs whole blocks: final-normed rows [T, H]."""
        ops, config = self._ops, self.config
        x = ops.embed(self._embedding, rows, config.embedding_scale)
        for index, block in enumerate(self._blocks):
            x = block.run(ops, x, memory.layer(index), rows)
        return ops.norm(x, self._norm, config.sizes.norm_eps)


def _square_of_scale(tensors: TensorSource) -> float:
    """The square of a factor on the fused features, as GGUF may have one.

    The norm behind them undoes the factor, but for its epsilon: to divide that is the same.
    """
    raw = tensors.take_optional("fc.scale", (1,))
    if raw is None:
        return 1.0
    scale = float(raw.unpack().reshape(-1)[0])
    if not math.isfinite(scale) or scale <= 0:
        raise CheckpointError(f"tensor fc.scale is {scale}, expected a positive number")
    return scale * scale


def _build(c: DrafterConfig, index: int, rope: RopeTable, builder: Builder) -> Block:
    s, prefix = c.sizes, f"layers.{index}"
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    order = half_split_order(1, s.head_dim) if c.interleaved else None
    sinks = builder.tensors.take(f"{attention}.sinks", (s.heads,)) if c.sinks else None
    sees = Visibility(
        scale=s.head_dim**-0.5,
        causal=c.causal[index],
        window=c.windows[index],
        sinks=None if sinks is None else builder.ops.vector(sinks),
    )

    def convolution(name: str) -> Convolution | None:
        if c.selector is None:
            return None
        taps, groups = c.selector.taps, s.width // c.selector.group
        base = builder.tensors.take(f"{prefix}.{name}.base_kernel", (2, taps, s.width))
        projection = f"{prefix}.{name}.kernel_projection"
        return Convolution(
            builder.ops.vector(base), builder.linear(projection, 2 * taps * groups, s.width)
        )

    def around(norm: str, out: Linear, conv: str) -> Sublayer:
        weight = builder.norm(f"{prefix}.{norm}", s.width)
        return Sublayer(weight, s.norm_eps, out, convolution=convolution(conv))

    output = builder.linear(f"{attention}.o_proj", s.width, s.heads * s.head_dim, c.bias)
    down = builder.linear(f"{mlp}.down_proj", s.width, s.mlp_width)
    heads = Heads(s.heads, s.kv_heads, s.head_dim, c.bias)
    return Block(
        Attention.build(builder, attention, s.width, heads, rope, sees, True, order),
        around("input_layernorm", output, "attention_conv"),
        GatedMlp.build(builder, mlp, s.width, s.mlp_width, "silu", False),
        around("post_attention_layernorm", down, "mlp_conv"),
    )
