"""The layers that DFlash and DFlash2 share: context injection and the block stream.

A block is [anchor, mask, mask, ...] at the places after the committed ones; row i predicts the
token at its own place. The context's K/V come from the target's features, projected once per kept
row; the block's own K/V are written behind them and dropped after the pass. DFlash2 adds a
convolution on both sides of each sublayer. The mathematics is that of the public `dflash` package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from draftwalk.draft.config import DrafterConfig
from draftwalk.ops import HeadNorm, Linear, Matrix, Operations, RopeTable, Visibility
from draftwalk.rows import Rows, Rowset
from draftwalk.state import pass_over
from draftwalk.state.attention import AttentionState
from draftwalk.state.pages import LayerPages
from draftwalk.target.rope import half_split_order, rope_table
from draftwalk.weights.source import TensorSource
from draftwalk.weights.tensor import permute_rows


@dataclass(frozen=True, slots=True)
class Convolution:
    """DFlash2's convolution around one sublayer: base kernel [2, taps, H] and its projection."""

    base: Tensor
    projection: Linear


@dataclass(frozen=True, slots=True)
class DraftBlock:
    """The weights of one layer."""

    attention_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    q_norm: HeadNorm
    k_norm: HeadNorm
    output: Linear
    attention_convolution: Convolution | None
    mlp_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear
    mlp_convolution: Convolution | None
    sees: Visibility


class Backbone:
    """The drafter's network.

    Args:
        config: the checkpoint's configuration.
        tensors: its weights.
        ops: the back end.
        embedding: [V, H] table the block's rows come from.
        context: places of text to prepare for; a block reaches beyond them.
    """

    def __init__(
        self,
        config: DrafterConfig,
        tensors: TensorSource,
        ops: Operations,
        embedding: Matrix,
        context: int,
    ) -> None:
        self.config = config
        self.context = min(context + config.block, config.sizes.context)
        self._ops = ops
        self._embedding = embedding
        self._rope: RopeTable = ops.rope(*rope_table(config.rope, self.context))
        width, joined = config.sizes.width, len(config.taps) * config.target_width
        self._fusion = Linear(ops.matrix(tensors.take("fc.weight", (width, joined))))
        self._fusion_norm = ops.vector(tensors.take("hidden_norm.weight", (width,)))
        self._blocks = [_build(config, n, tensors, ops) for n in range(len(config.windows))]
        self._norm = ops.vector(tensors.take("norm.weight", (width,)))

    def new_state(self) -> AttentionState:
        """An empty context."""
        s, windows = self.config.sizes, self.config.windows
        return AttentionState(windows, s.kv_heads, s.head_dim, self._ops.dtype, self._ops.device)

    def observe(
        self, state: AttentionState, rows: Rows, features: Tensor, kept: Mapping[int, int]
    ) -> None:
        """Injects the features of each span's first `kept` rows as context, while they fit in it.

        No block will ever stand behind places that do not.
        """
        rowsets = []
        for span in rows.spans:
            count = min(kept[span.sequence], self.context - span.context)
            if count > 0:
                chosen = range(span.start, span.start + count)
                rowsets.append(Rowset(span.sequence, chosen, span.context, "none"))
        if not rowsets:
            return
        context = Rows.lay_out(rowsets, self._ops.device)
        with pass_over(state, context) as injected:
            # The features' row numbers stand where token ids would: injection embeds no tokens.
            self._inject(state, context, self._ops.gather(features, context.tokens))
            injected.update({span.sequence: span.size for span in context.spans})

    def forward(self, state: AttentionState, rows: Rows) -> Tensor:
        """One pass over whole blocks: final-normed rows [T, H]."""
        ops, c = self._ops, self.config
        x = ops.embed(self._embedding, rows, c.embedding_scale)
        for index, block in enumerate(self._blocks):
            pages = state.layer(index)

            def attend(u: Tensor, b: DraftBlock = block, kv: LayerPages = pages) -> Tensor:
                q, k, v = ops.linear(u, (b.q, b.k, b.v))
                q = ops.rotate(q, c.sizes.heads, b.q_norm, self._rope, rows)
                k = ops.rotate(k, c.sizes.kv_heads, b.k_norm, self._rope, rows)
                ops.store(k, v, kv, rows)
                return ops.attend(q, kv, rows, b.sees)

            def transform(u: Tensor, b: DraftBlock = block) -> Tensor:
                return ops.gated(u, b.gate, b.up, "silu")

            convolution = block.attention_convolution
            x = self._sublayer(x, block.attention_norm, attend, block.output, convolution, rows)
            convolution = block.mlp_convolution
            x = self._sublayer(x, block.mlp_norm, transform, block.down, convolution, rows)
        return ops.norm(x, self._norm, c.sizes.norm_eps)

    def _inject(self, state: AttentionState, rows: Rows, features: Tensor) -> None:
        ops, c = self._ops, self.config
        (fused,) = ops.linear(features, (self._fusion,))
        context = ops.norm(fused, self._fusion_norm, c.sizes.norm_eps)
        for index, block in enumerate(self._blocks):
            k, v = ops.linear(context, (block.k, block.v))
            k = ops.rotate(k, c.sizes.kv_heads, block.k_norm, self._rope, rows)
            ops.store(k, v, state.layer(index), rows)

    def _sublayer(
        self,
        x: Tensor,
        norm: Tensor,
        inner: Callable[[Tensor], Tensor],
        out: Linear,
        convolution: Convolution | None,
        rows: Rows,
    ) -> Tensor:
        """x + out(inner(norm(x))), with the convolution before and behind, if there is one."""
        ops = self._ops
        u = ops.norm(x, norm, self.config.sizes.norm_eps)
        if convolution is None:
            return ops.linear_residual(inner(u), out, x)
        # Both sides' coefficients come from the sublayer's input, before the first convolution.
        (dynamic,) = ops.linear(u, (convolution.projection,))
        u = ops.convolve(u, dynamic, convolution.base, 0, rows)
        (y,) = ops.linear(inner(u), (out,))
        return ops.convolve(y, dynamic, convolution.base, 1, rows, residual=x)


def _build(c: DrafterConfig, index: int, tensors: TensorSource, ops: Operations) -> DraftBlock:
    prefix = f"layers.{index}"
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    s = c.sizes
    queries, keys = s.heads * s.head_dim, s.kv_heads * s.head_dim

    def norm(name: str) -> Tensor:
        return ops.vector(tensors.take(f"{name}.weight", (s.width,)))

    def linear(name: str, outputs: int, inputs: int, bias: bool = False, heads: int = 0) -> Linear:
        order = half_split_order(heads, s.head_dim) if c.interleaved and heads else None
        raw = tensors.take(f"{name}.weight", (outputs, inputs))
        matrix = ops.matrix(raw if order is None else permute_rows(raw, order))
        if not bias:
            return Linear(matrix)
        raw = tensors.take(f"{name}.bias", (outputs,))
        vector = ops.vector(raw)
        return Linear(matrix, vector if order is None else vector[order.tolist()])

    def head_norm(name: str) -> HeadNorm:
        weight = ops.vector(tensors.take(f"{name}.weight", (s.head_dim,)))
        if c.interleaved:
            weight = weight[half_split_order(1, s.head_dim).tolist()]
        return HeadNorm(weight, s.norm_eps)

    def convolution(name: str) -> Convolution | None:
        if c.selector is None:
            return None
        taps, groups = c.selector.taps, s.width // c.selector.group
        base = ops.vector(tensors.take(f"{name}.base_kernel", (2, taps, s.width)))
        return Convolution(base, linear(f"{name}.kernel_projection", 2 * taps * groups, s.width))

    return DraftBlock(
        attention_norm=norm(f"{prefix}.input_layernorm"),
        q=linear(f"{attention}.q_proj", queries, s.width, c.bias, s.heads),
        k=linear(f"{attention}.k_proj", keys, s.width, c.bias, s.kv_heads),
        v=linear(f"{attention}.v_proj", keys, s.width, c.bias),
        q_norm=head_norm(f"{attention}.q_norm"),
        k_norm=head_norm(f"{attention}.k_norm"),
        output=linear(f"{attention}.o_proj", s.width, queries, c.bias),
        attention_convolution=convolution(f"{prefix}.attention_conv"),
        mlp_norm=norm(f"{prefix}.post_attention_layernorm"),
        gate=linear(f"{mlp}.gate_proj", s.mlp_width, s.width),
        up=linear(f"{mlp}.up_proj", s.mlp_width, s.width),
        down=linear(f"{mlp}.down_proj", s.width, s.mlp_width),
        mlp_convolution=convolution(f"{prefix}.mlp_conv"),
        sees=Visibility(scale=s.head_dim**-0.5, causal=c.causal[index], window=c.windows[index]),
    )
