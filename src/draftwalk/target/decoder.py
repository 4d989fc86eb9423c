"""The only forward pass of targets: embed, blocks of attention and MLP, norm, head."""

from __future__ import annotations

from torch import Tensor

from draftwalk.layers.attention import Attention, Heads
from draftwalk.layers.block import Block
from draftwalk.layers.mlp import GatedMlp
from draftwalk.layers.parts import Builder
from draftwalk.layers.sublayer import Sublayer
from draftwalk.ops import Operations, RopeTable, Visibility
from draftwalk.rows import Rows
from draftwalk.state.attention import AttentionState
from draftwalk.target import PassOutput, SharedTables, rows_of
from draftwalk.target.blueprint import Blueprint, Sizes
from draftwalk.target.rope import rope_table
from draftwalk.weights.source import TensorSource


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
        rows = tensors.take("model.embed_tokens.weight", shape)
        stored = rows if blueprint.tied else tensors.take("lm_head.weight", shape)
        embedding = ops.matrix(rows)
        head = embedding if blueprint.tied else ops.matrix(stored)
        self._tables = SharedTables(embedding, head, rows_of(stored, ops))
        ropes = [ops.rope(*rope_table(rope, context)) for rope in blueprint.ropes]
        builder = Builder(tensors, ops, self.sizes.norm_eps, blueprint.norm_offset)
        self._blocks = [
            _build_block(blueprint, index, ropes[plan.rope], builder)
            for index, plan in enumerate(blueprint.layers)
        ]
        self._norm = builder.norm("model.norm", self.sizes.width)

    @property
    def ops(self) -> Operations:
        """The back end."""
        return self._ops

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
        windows = [plan.window for plan in self.blueprint.layers]
        return AttentionState(windows, self.sizes.kv_heads, self.sizes.head_dim, self._ops)

    def forward(self, rows: Rows, state: AttentionState, taps: tuple[int, ...]) -> PassOutput:
        """One pass over the rows."""

        def body(rows: Rows, _inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return self._pass(rows, state, taps)

        logits, peaks, best, *features = self._ops.run((self, state, taps), rows, (), body)
        return PassOutput.of(rows, logits, features, (peaks, best))

    def _pass(self, rows: Rows, state: AttentionState, taps: tuple[int, ...]) -> tuple[Tensor, ...]:
        """Logits [W, V], the greatest, their ids and, if a layer is tapped, features [T, F * H]."""
        ops, tapped = self._ops, {}
        x = ops.embed(self._tables.embedding, rows, self.blueprint.embedding_scale)
        for index, block in enumerate(self._blocks):
            x = block.run(ops, x, state.layer(index), rows)
            if index in taps:
                tapped[index] = x
        x = ops.norm(ops.gather(x, rows.wanted), self._norm, self.sizes.norm_eps)
        logits = ops.head(x, self._tables.head, softcap=self.blueprint.softcap)
        chosen = (logits, *ops.argmax(logits))
        return (*chosen, ops.join([tapped[tap] for tap in taps])) if taps else chosen


def _build_block(b: Blueprint, index: int, rope: RopeTable, builder: Builder) -> Block:
    prefix = f"model.layers.{index}"
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    s, plan = b.sizes, b.layers[index]
    sees = Visibility(
        scale=s.head_dim**-0.5 if b.attention_scale is None else b.attention_scale,
        window=plan.window,
        softcap=b.attention_softcap,
    )
    heads = Heads(s.heads, s.kv_heads, s.head_dim, b.qkv_bias)

    def around(norm: str, out: str, inputs: int, bias: bool, post: str) -> Sublayer:
        return Sublayer(
            builder.norm(f"{prefix}.{norm}", s.width),
            s.norm_eps,
            builder.linear(out, s.width, inputs, bias),
            builder.norm(f"{prefix}.{post}", s.width) if b.post_norms else None,
        )

    # Where attention and MLP have a norm behind them, Hugging Face calls the MLP's own norm
    # pre_feedforward_layernorm, and post_attention_layernorm is the one behind attention.
    mlp_norm = "pre_feedforward_layernorm" if b.post_norms else "post_attention_layernorm"
    return Block(
        Attention.build(builder, attention, s.width, heads, rope, sees, b.qk_norm),
        around(
            "input_layernorm",
            f"{attention}.o_proj",
            s.heads * s.head_dim,
            b.output_bias,
            "post_attention_layernorm",
        ),
        GatedMlp.build(builder, mlp, s.width, s.mlp_width, b.activation, b.mlp_bias),
        around(mlp_norm, f"{mlp}.down_proj", s.mlp_width, b.mlp_bias, "post_feedforward_layernorm"),
    )
