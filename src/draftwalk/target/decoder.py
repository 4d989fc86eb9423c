"""The only forward pass of targets: embed, blocks of attention and MLP, norm, head."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from draftwalk.ops import HeadNorm, Linear, Operations, RopeTable, Visibility
from draftwalk.rows import Rows
from draftwalk.state.attention import AttentionState
from draftwalk.state.pages import LayerPages
from draftwalk.target import PassOutput, SharedTables
from draftwalk.target.blueprint import Blueprint, Sizes
from draftwalk.target.rope import rope_table
from draftwalk.weights.source import TensorSource


@dataclass(frozen=True, slots=True)
class Block:
    """The weights of one layer. Norms that an architecture lacks are `None`."""

    attention_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    q_norm: HeadNorm | None
    k_norm: HeadNorm | None
    output: Linear
    attention_post_norm: Tensor | None
    mlp_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear
    mlp_post_norm: Tensor | None
    rope: RopeTable
    sees: Visibility


class Decoder:
    """A target built from a blueprint.

    Args:
        blueprint: the architecture.
        tensors: where the weights come from; every one of them must be used.
        ops: the back end.
        context: positions to prepare for; at most what the model was made for.
    """

    def __init__(
        self, blueprint: Blueprint, tensors: TensorSource, ops: Operations, context: int
    ) -> None:
        self.blueprint = blueprint
        self.sizes: Sizes = blueprint.sizes
        self._ops = ops
        self._context = context
        shape = (self.sizes.vocabulary, self.sizes.width)
        embedding = ops.matrix(tensors.take("model.embed_tokens.weight", shape))
        head = embedding if blueprint.tied else ops.matrix(tensors.take("lm_head.weight", shape))
        self._tables = SharedTables(embedding, head)
        ropes = [ops.rope(*rope_table(rope, self._context)) for rope in blueprint.ropes]
        self._blocks = [
            _build_block(blueprint, index, ropes[plan.rope], tensors, ops)
            for index, plan in enumerate(blueprint.layers)
        ]
        self._norm = ops.vector(
            tensors.take("model.norm.weight", (self.sizes.width,)), blueprint.norm_offset
        )

    @property
    def vocabulary(self) -> int:
        """Rows of the head."""
        return self.sizes.vocabulary

    @property
    def width(self) -> int:
        """Values per row."""
        return self.sizes.width

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self._blocks)

    @property
    def context(self) -> int:
        """Positions that rope tables reach."""
        return self._context

    @property
    def tables(self) -> SharedTables:
        """Embedding and head."""
        return self._tables

    def new_state(self) -> AttentionState:
        """An empty K/V state."""
        s, windows = self.sizes, [plan.window for plan in self.blueprint.layers]
        return AttentionState(windows, s.kv_heads, s.head_dim, self._ops.dtype, self._ops.device)

    def forward(self, rows: Rows, state: AttentionState, out: PassOutput) -> None:
        """One pass over the rows; logits and features go to `out`."""
        ops, width = self._ops, self.width
        x = ops.embed(self._tables.embedding, rows, self.blueprint.embedding_scale)
        for index, block in enumerate(self._blocks):
            x = self._attend(x, block, state.layer(index), rows)
            x = self._transform(x, block)
            for column, tap in enumerate(out.taps):
                if tap == index:
                    ops.copy(x, out.features[:, column * width : (column + 1) * width])
        x = ops.gather(x, rows.wanted)
        x = ops.norm(x, self._norm, self.sizes.norm_eps)
        ops.head(x, self._tables.head, softcap=self.blueprint.softcap, into=out.logits)

    def _attend(self, x: Tensor, block: Block, pages: LayerPages, rows: Rows) -> Tensor:
        ops, s = self._ops, self.sizes
        u = ops.norm(x, block.attention_norm, s.norm_eps)
        q, k, v = ops.linear(u, (block.q, block.k, block.v))
        q = ops.rotate(q, s.heads, block.q_norm, block.rope, rows)
        k = ops.rotate(k, s.kv_heads, block.k_norm, block.rope, rows)
        ops.store(k, v, pages, rows)
        a = ops.attend(q, pages, rows, block.sees)
        return self._add(a, block.output, block.attention_post_norm, x)

    def _transform(self, x: Tensor, block: Block) -> Tensor:
        ops = self._ops
        u = ops.norm(x, block.mlp_norm, self.sizes.norm_eps)
        m = ops.gated(u, block.gate, block.up, self.blueprint.activation)
        return self._add(m, block.down, block.mlp_post_norm, x)

    def _add(self, y: Tensor, linear: Linear, post_norm: Tensor | None, x: Tensor) -> Tensor:
        """x + linear(y), normed before the sum where the architecture does."""
        if post_norm is None:
            return self._ops.linear_residual(y, linear, x)
        (y,) = self._ops.linear(y, (linear,))
        return self._ops.norm(y, post_norm, self.sizes.norm_eps, residual=x)


def _build_block(
    b: Blueprint, index: int, rope: RopeTable, tensors: TensorSource, ops: Operations
) -> Block:
    prefix = f"model.layers.{index}"
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    s, plan = b.sizes, b.layers[index]

    def norm(name: str, size: int = b.sizes.width) -> Tensor:
        return ops.vector(tensors.take(f"{name}.weight", (size,)), b.norm_offset)

    def head_norm(name: str) -> HeadNorm | None:
        return HeadNorm(norm(name, s.head_dim), s.norm_eps) if b.qk_norm else None

    def linear(name: str, outputs: int, inputs: int, bias: bool) -> Linear:
        matrix = ops.matrix(tensors.take(f"{name}.weight", (outputs, inputs)))
        return Linear(
            matrix, ops.vector(tensors.take(f"{name}.bias", (outputs,))) if bias else None
        )

    # Where attention and MLP have a norm behind them, Hugging Face calls the MLP's own norm
    # pre_feedforward_layernorm, and post_attention_layernorm is the one behind attention.
    post = b.post_norms
    mlp_norm = "pre_feedforward_layernorm" if post else "post_attention_layernorm"
    queries, keys = s.heads * s.head_dim, s.kv_heads * s.head_dim
    return Block(
        attention_norm=norm(f"{prefix}.input_layernorm"),
        q=linear(f"{attention}.q_proj", queries, s.width, b.qkv_bias),
        k=linear(f"{attention}.k_proj", keys, s.width, b.qkv_bias),
        v=linear(f"{attention}.v_proj", keys, s.width, b.qkv_bias),
        q_norm=head_norm(f"{attention}.q_norm"),
        k_norm=head_norm(f"{attention}.k_norm"),
        output=linear(f"{attention}.o_proj", s.width, queries, b.output_bias),
        attention_post_norm=norm(f"{prefix}.post_attention_layernorm") if post else None,
        mlp_norm=norm(f"{prefix}.{mlp_norm}"),
        gate=linear(f"{mlp}.gate_proj", s.mlp_width, s.width, b.mlp_bias),
        up=linear(f"{mlp}.up_proj", s.mlp_width, s.width, b.mlp_bias),
        down=linear(f"{mlp}.down_proj", s.width, s.mlp_width, b.mlp_bias),
        mlp_post_norm=norm(f"{prefix}.post_feedforward_layernorm") if post else None,
        rope=rope,
        sees=Visibility(
            scale=s.head_dim**-0.5 if b.attention_scale is None else b.attention_scale,
            window=plan.window,
            softcap=b.attention_softcap,
        ),
    )
