"""A back end to learn with: torch, whose matrices and vectors are parameters.

The drafter's forward is written once; here it runs over blocks that all have the same number of
rows, so that what the reference does span by span can be done for all of them together. Blocks of
one pass never see each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from draftwalk.ops import Visibility
from draftwalk.ops.memory import KVContext, KVPages, KVTensors
from draftwalk.ops.torch import DenseMatrix, TorchOperations
from draftwalk.rows import Rows, Span
from draftwalk.weights.tensor import RawTensor

Contexts = Mapping[int, tuple[Tensor, Tensor]]


class LearningOperations(TorchOperations):
    """Operations with gradients.

    Attributes:
        parameters: every tensor taken so far, by its canonical name, float32.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device, torch.float32)
        self.parameters: dict[str, Tensor] = {}

    def matrix(self, raw: RawTensor) -> DenseMatrix:
        """A parameter [out, in]."""
        return DenseMatrix(self._parameter(raw))

    def vector(self, raw: RawTensor, plus: float = 0.0) -> Tensor:
        """A parameter of any shape."""
        assert not plus, "a drafter's norms are stored as they are used"
        return self._parameter(raw)

    def attend(self, q: Tensor, kv: KVPages | KVTensors, rows: Rows, sees: Visibility) -> Tensor:
        """Attention of blocks over their contexts, all blocks of a context at once."""
        assert isinstance(kv, KVTensors), "what is learned reads no pages"
        outputs = []
        for context, spans in _by_context(rows.spans, kv.contexts):
            part = slice(spans[0].start, spans[-1].stop)
            outputs.append(_attend_blocks(q[part], context, kv.k[part], kv.v[part], spans, sees))
        return torch.cat(outputs).flatten(1)

    def convolve(
        self,
        x: Tensor,
        dynamic: Tensor,
        base: Tensor,
        side: int,
        rows: Rows,
        residual: Tensor | None = None,
    ) -> Tensor:
        """Convolution along each block."""
        size = rows.spans[0].size
        taps, width = base.shape[1:]
        coefficients = dynamic.view(rows.size, 2, taps, -1)[:, side]
        blocks = x.view(-1, size, width)
        out = residual
        for tap in range(taps):
            # [T, groups, channels of a group]
            own = coefficients[:, tap, :, None]
            kernel = base[side, tap].view(own.shape[1], -1) + own
            shifted = functional.pad(blocks, (0, 0, tap, 0))[:, :size].reshape(x.shape)
            term = kernel.view(x.shape) * shifted
            out = term if out is None else out + term
        assert out is not None, "a convolution has taps"
        return out

    def gather(self, x: Tensor, index: Tensor) -> Tensor:
        """Rows of x."""
        return x.index_select(0, index)

    def _parameter(self, raw: RawTensor) -> Tensor:
        assert raw.name not in self.parameters, f"{raw.name} is taken twice"
        values = torch.from_numpy(raw.unpack()).to(self.device)
        self.parameters[raw.name] = values.requires_grad_()
        return self.parameters[raw.name]


@dataclass(frozen=True, slots=True)
class LayerContexts:
    """A memory of K/V that a pass was given: for each layer, what its blocks see of their texts."""

    layers: Sequence[Contexts]

    def layer(self, index: int) -> KVContext:
        """The memory of one layer."""
        return KVContext(self.layers[index])


class NoContexts:
    """A memory in which there is nothing yet."""

    def layer(self, index: int) -> KVContext:
        """The memory of one layer."""
        return KVContext()


def _by_context(
    spans: Sequence[Span], contexts: Contexts
) -> Iterator[tuple[tuple[Tensor, Tensor], list[Span]]]:
    """Runs of blocks that stand in the same text."""
    for _, group in groupby(spans, key=lambda span: id(contexts[span.sequence])):
        run = list(group)
        yield contexts[run[0].sequence], run


def _attend_blocks(
    q: Tensor,
    context: tuple[Tensor, Tensor],
    k: Tensor,
    v: Tensor,
    spans: Sequence[Span],
    sees: Visibility,
) -> Tensor:
    """Grouped attention of n blocks of B rows over a context of S places and their own rows.

    q is [n * B, N, D], k and v [n * B, G, D], the context's [S, G, D].
    """
    assert sees.softcap is None, "what is trained has none"
    assert sees.sinks is None, "what is trained has none"
    n, size, reach = len(spans), spans[0].size, max(span.context for span in spans)
    groups, depth = k.shape[1:]
    before_k, before_v = (part[:reach].transpose(0, 1) for part in context)  # [G, S, D]
    anchors = torch.tensor([span.context for span in spans], device=q.device)
    # [G, n, heads of a group, B, D]
    queries = q.view(n, size, groups, -1, depth).permute(2, 0, 3, 1, 4) * sees.scale
    heads = queries.shape[2]
    behind = (queries.reshape(groups, -1, depth) @ before_k.transpose(1, 2)).view(
        groups, n, heads, size, reach
    )
    own_k = k.view(n, size, groups, depth).permute(2, 0, 3, 1)[:, :, None]  # [G, n, 1, D, B]
    own_v = v.view(n, size, groups, depth).permute(2, 0, 1, 3)[:, :, None]
    beside = queries @ own_k
    hidden = _hidden(anchors, size, reach, sees)
    scores = torch.cat([behind, beside], dim=-1).masked_fill(hidden[None, :, None], -torch.inf)
    weights = scores.softmax(-1)
    far = weights[..., :reach].reshape(groups, -1, reach) @ before_v
    out = far.view(queries.shape) + weights[..., reach:] @ own_v
    return out.permute(1, 3, 0, 2, 4).reshape(n * size, groups * heads, depth)


def _hidden(anchors: Tensor, size: int, reach: int, sees: Visibility) -> Tensor:
    """[n, B, S + B]: what each row of each block does not see."""
    offsets = torch.arange(size, device=anchors.device)
    places = torch.arange(reach, device=anchors.device)
    rows = anchors[:, None, None] + offsets[None, :, None]
    behind = (places >= anchors[:, None, None]).expand(-1, size, -1)
    ahead = offsets[None, :] - offsets[:, None]
    beside = ahead > 0 if sees.causal else torch.zeros_like(ahead, dtype=torch.bool)
    if sees.window is not None:
        behind = behind | (rows - places >= sees.window)
        beside = beside | (ahead.abs() >= sees.window)
    return torch.cat([behind, beside.expand(len(anchors), -1, -1)], dim=-1)
