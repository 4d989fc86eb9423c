"""The reference back end: torch, any device, any float type, with gradients.

Written to be read and compared with; every operation is a few lines. Quantised weights are unpacked
at load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from draftwalk.errors import RollbackError
from draftwalk.ops import (
    Activation,
    HeadNorm,
    Linear,
    Matrix,
    RopeTable,
    Visibility,
)
from draftwalk.ops.memory import PAGE, KVContext, KVPages, KVTensors, KVType, PagePool, only_f16
from draftwalk.rows import Rows, Span
from draftwalk.weights.tensor import RawTensor


@dataclass(frozen=True, slots=True)
class DenseMatrix:
    """A matrix unpacked to the activations' type."""

    weight: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.weight.shape[0], self.weight.shape[1]

    @property
    def bytes(self) -> int:
        """Resident memory."""
        return self.weight.numel() * self.weight.element_size()


class DensePool:
    """K/V pages as tensors [pages, 64, G, D], two a layer."""

    def __init__(
        self, layers: int, heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        empty = torch.empty((0, PAGE, heads, head_dim), dtype=dtype, device=device)
        self.k = [empty] * layers
        self.v = [empty] * layers

    @property
    def pages(self) -> int:
        """How many there are."""
        return len(self.k[0])

    @property
    def bytes(self) -> int:
        """Memory of all of them."""
        return sum(part.nbytes for part in (*self.k, *self.v))

    def grow(self, pages: int) -> None:
        """One layer after the other, so that only one is there twice at a time."""
        for parts in (self.k, self.v):
            for layer, part in enumerate(parts):
                parts[layer] = part.new_zeros((pages, *part.shape[1:]))
                parts[layer][: len(part)] = part

    def copy(self, source: int, into: int) -> None:
        """Copies a page."""
        for part in (*self.k, *self.v):
            part[into] = part[source]

    def read(self, pages: Sequence[int]) -> dict[str, Tensor]:
        """Keys and values [layers, pages, 64, G, D]."""
        index = list(pages)
        return {
            "k": torch.stack([part[index] for part in self.k]),
            "v": torch.stack([part[index] for part in self.v]),
        }

    def write(self, pages: Sequence[int], saved: Mapping[str, Tensor]) -> None:
        """Writes saved pages."""
        wanted = (len(self.k), len(pages), *self.k[0].shape[1:])
        for name in ("k", "v"):
            if saved[name].shape != wanted:
                raise RollbackError(f"saved K/V of shape {tuple(saved[name].shape)} does not fit")
        for name, parts in (("k", self.k), ("v", self.v)):
            for part, values in zip(parts, saved[name], strict=True):
                part[list(pages)] = values.to(part)


class TorchOperations:
    """Operations on one device in one float type."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.dtype = dtype

    def alone(self) -> AbstractContextManager[None]:
        """It has no other threads than torch's."""
        return nullcontext()

    def now(self) -> float:
        """Wall time, with a CUDA queue drained first."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def run(
        self,
        key: tuple[Hashable, ...],
        rows: Rows,
        inputs: tuple[Tensor, ...],
        body: Callable[[Rows, tuple[Tensor, ...]], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """Just runs it; nothing is recorded."""
        return body(rows, inputs)

    def page_pool(
        self, layers: int, heads: int, head_dim: int, kind: KVType | None = None
    ) -> PagePool:
        """Pages in the activations' type."""
        only_f16(kind or "f16")
        return DensePool(layers, heads, head_dim, self.dtype, self.device)

    def matrix(self, raw: RawTensor) -> Matrix:
        """Unpacks a matrix."""
        return DenseMatrix(self._tensor(raw, 0.0))

    def product(self, table: Matrix, factor: Matrix) -> Matrix:
        """Makes a factored table whole, summing in at least fp32."""
        left, right = _weight(table), _weight(factor)
        wide = torch.promote_types(self.dtype, torch.float32)
        return DenseMatrix((left.to(wide) @ right.to(wide).T).to(self.dtype))

    def vector(self, raw: RawTensor, plus: float = 0.0) -> Tensor:
        """Unpacks a small tensor."""
        return self._tensor(raw, plus)

    def rope(self, cos: Tensor, sin: Tensor) -> RopeTable:
        """Rounds a rotation table once."""
        return RopeTable(cos.to(self.device, self.dtype), sin.to(self.device, self.dtype))

    def embed(self, table: Matrix, rows: Rows, scale: float) -> Tensor:
        """Looks embeddings up."""
        weight = _weight(table)
        if rows.embeddings is None:
            return weight[rows.tokens] * scale
        given = rows.tokens < 0
        looked_up = weight[rows.tokens.clamp(min=0)] * scale
        return torch.where(
            given[:, None], rows.embeddings[(-1 - rows.tokens).clamp(min=0)].to(weight), looked_up
        )

    def norm(self, x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> Tensor:
        """RMS norm, in at least fp32."""
        normed = _rms(x, weight, eps)
        return normed if residual is None else residual + normed

    def linear(self, x: Tensor, linears: Sequence[Linear]) -> tuple[Tensor, ...]:
        """Products of the same rows."""
        return tuple(functional.linear(x, _weight(one.matrix), one.bias) for one in linears)

    def linear_residual(self, x: Tensor, linear: Linear, residual: Tensor) -> Tensor:
        """Product plus residual."""
        return residual + functional.linear(x, _weight(linear.matrix), linear.bias)

    def gated(self, x: Tensor, gate: Linear, up: Linear, activation: Activation) -> Tensor:
        """Gated product."""
        g, u = self.linear(x, (gate, up))
        if activation == "silu":
            return functional.silu(g) * u
        return functional.gelu(g, approximate="tanh") * u

    def rotate(
        self, x: Tensor, heads: int, norm: HeadNorm | None, rope: RopeTable, rows: Rows
    ) -> Tensor:
        """Norm per head and rotation of element i with element i + D / 2."""
        x = x.view(rows.size, heads, -1)
        if norm is not None:
            x = _rms(x, norm.weight, norm.eps)
        position = rows.positions[0]
        cos, sin = rope.cos[position][:, None], rope.sin[position][:, None]
        low, high = x.chunk(2, dim=-1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)

    def remember(
        self,
        k: Tensor,
        v: Tensor,
        heads: int,
        norm: HeadNorm | None,
        rope: RopeTable,
        into: KVPages | KVContext,
        rows: Rows,
    ) -> KVPages | KVTensors:
        """Rotates keys; writes to pages all rows at once."""
        k = self.rotate(k, heads, norm, rope, rows)
        v = v.view(k.shape)
        if isinstance(into, KVContext):
            return KVTensors(into.contexts, k, v)
        slots = _slots(into, rows.sequences, rows.places)
        keys, values = _layer(into)
        keys[slots] = k.to(keys)
        values[slots] = v.to(values)
        return into

    def attend(self, q: Tensor, kv: KVPages | KVTensors, rows: Rows, sees: Visibility) -> Tensor:
        """Attention, one span after the other."""
        outputs = []
        for span in rows.spans:
            k, v, places = _keys(kv, span, sees, rows)
            visible = _visible(rows.places[span.start : span.stop], places, sees)
            outputs.append(_attend_span(q[span.start : span.stop], k, v, visible, sees))
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
        """Convolution along each span."""
        taps, width = base.shape[1:]
        coefficients = dynamic.view(rows.size, 2, taps, -1)[:, side]
        groups = coefficients.shape[-1]
        out = torch.zeros_like(x)
        ancestor = torch.arange(rows.size, device=x.device)
        present = torch.ones_like(ancestor, dtype=torch.bool)
        for tap in range(taps):
            if tap:
                ancestor = torch.where(present, rows.parents[ancestor], ancestor)
                present = present & (ancestor >= 0)
                ancestor = ancestor.clamp(min=0)
            kernel = base[side, tap].view(groups, -1) + coefficients[:, tap, :, None]
            values = torch.where(present[:, None], x[ancestor], 0)
            out = out + kernel.view(rows.size, width) * values
        return out if residual is None else residual + out

    def gather(self, x: Tensor, index: Tensor) -> Tensor:
        """Rows of x."""
        return x[index]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Side by side."""
        return torch.cat(list(parts), dim=1)

    def head(
        self,
        x: Tensor,
        table: Matrix,
        multiplier: float = 1.0,
        softcap: float | None = None,
    ) -> Tensor:
        """Logits, multiplied before they are capped."""
        logits = functional.linear(x, _weight(table))
        if multiplier != 1.0:
            logits = logits * multiplier
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        return logits

    def top_k(self, logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Greatest logits; torch's own top-k leaves ties open, so they are settled by id."""
        logits = logits.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        values, ids = logits.topk(k, dim=-1)
        least = values[:, -1:]
        if bool(((logits >= least).sum(-1) > k).any()):  # ties at the edge, which are rare
            above, tied = logits > least, logits == least
            room = k - above.sum(-1, keepdim=True)
            ids = (above | (tied & (tied.cumsum(-1) <= room))).nonzero()[:, 1].view(-1, k)
        ids = ids.sort(dim=-1).values
        values, order = logits.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
        return values, ids.gather(-1, order)

    def renumber(self, numbers: Tensor, table: Tensor) -> Tensor:
        """Entries of a table."""
        return table[numbers]

    def argmax(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Greatest logit, the lowest id of equals."""
        values = logits.amax(-1)
        return values, (logits == values[:, None]).int().argmax(-1)

    def selector(
        self,
        unary: Tensor,
        candidates: Tensor,
        gate: Tensor,
        tables: tuple[Matrix, Matrix],
        rows: Rows,
    ) -> Tensor:
        """Transition scores of all predecessors at once."""
        before, after = _weight(tables[0]), _weight(tables[1])
        predecessors = candidates.roll(1, dims=0)
        first = 0
        for span in rows.spans:
            if span.size > 1:
                predecessors[first] = rows.tokens[span.start]
            first += span.size - 1
        gated = before[predecessors] * gate[:, None]
        return unary[:, None] + gated @ after[candidates].transpose(1, 2)

    def _tensor(self, raw: RawTensor, plus: float) -> Tensor:
        values = torch.from_numpy(raw.unpack())
        if plus:
            values = values + plus
        return values.to(self.device, self.dtype)


def _weight(matrix: Matrix) -> Tensor:
    assert isinstance(matrix, DenseMatrix), "a matrix of another back end"
    return matrix.weight


def _rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (normed * weight.to(wide)).to(x)


def _layer(kv: KVPages) -> tuple[Tensor, Tensor]:
    """Keys and values of all places of a layer's pages, [pages * 64, G, D]."""
    pool = kv.pool
    assert isinstance(pool, DensePool), "a pool of another back end"
    return pool.k[kv.layer].flatten(0, 1), pool.v[kv.layer].flatten(0, 1)


def _slots(kv: KVPages, sequences: Tensor | int, places: Tensor) -> Tensor:
    """Where places of sequences lie among all pages' places."""
    return kv.tables.values[sequences, places // PAGE] * PAGE + places % PAGE


def _keys(
    kv: KVPages | KVTensors, span: Span, sees: Visibility, rows: Rows
) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values a span's rows may see, and the places they stand at."""
    end = span.context + span.size
    start = 0 if sees.window is None else max(0, span.context - sees.window + 1)
    places = torch.arange(start, end, device=rows.places.device)
    if isinstance(kv, KVPages):
        slots = _slots(kv, span.sequence, places)
        keys, values = _layer(kv)
        return keys[slots], values[slots], places
    k, v = kv.contexts[span.sequence]
    k = torch.cat([k[start : span.context], kv.k[span.start : span.stop]])
    v = torch.cat([v[start : span.context], kv.v[span.start : span.stop]])
    return k, v, places


def _visible(rows: Tensor, keys: Tensor, sees: Visibility) -> Tensor:
    """Mask [rows, keys] from the places of both."""
    ahead = keys - rows[:, None]
    visible = torch.ones_like(ahead, dtype=torch.bool)
    if sees.causal:
        visible &= ahead <= 0
    if sees.window is not None:
        visible &= ahead.abs() < sees.window
    return visible


def _attend_span(q: Tensor, k: Tensor, v: Tensor, visible: Tensor, sees: Visibility) -> Tensor:
    """Grouped attention of [T, N, D] over [S, G, D] keys, softmax in at least fp32.

    A row must not notice what it cannot see, and nought times infinity is no nought: values that
    are not finite are left out, and named as NaN in the rows that do see them.
    """
    rows, heads, head_dim = q.shape
    finite = v.isfinite().flatten(1).all(-1)
    spoiled = (visible & ~finite).any(-1)
    v = torch.where(finite[:, None, None], v, 0)
    groups = k.shape[1]
    grouped = q.view(rows, groups, heads // groups, head_dim).permute(1, 2, 0, 3)
    keys = k.to(q).permute(1, 2, 0)[:, None]
    scores = (grouped @ keys).to(torch.promote_types(q.dtype, torch.float32)) * sees.scale
    if sees.softcap is not None:
        scores = sees.softcap * torch.tanh(scores / sees.softcap)
    scores = scores.masked_fill(~visible, -torch.inf)
    if sees.sinks is not None:
        sinks = sees.sinks.to(scores).view(groups, -1, 1, 1).expand(-1, -1, rows, 1)
        weights = torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    out = weights.to(q) @ v.to(q).permute(1, 0, 2)[:, None]
    out = out.permute(2, 0, 1, 3).reshape(rows, heads, head_dim)
    return out.masked_fill(spoiled[:, None, None], torch.nan)
