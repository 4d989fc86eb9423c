"""The table of operations: all that a model's forward may call.

Targets and drafters are written once against `Operations`; a back end implements it (`torch.py` is
the reference; it runs on every device torch knows). Values are tensors that only operations look
into: a forward passes them on, and neither computes with them in between nor branches on what they
hold. States are explicit arguments. A whole pass is the body of `run`, so that another back end may
record its calls once and replay them; what `run` returns outlives the pass, all else may be gone.

Letters: T rows of the pass, W rows with logits, H width, N query heads, G key/value heads,
D values per head, V vocabulary, K candidates, R selector rank.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from draftwalk.ops.memory import KVContext, KVPages, KVTensors, KVType, PagePool
from draftwalk.rows import Rows
from draftwalk.weights.tensor import RawTensor

Activation = Literal["silu", "gelu_tanh"]


class Matrix(Protocol):
    """A weight matrix [out, in] in the layout of its back end."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows (outputs) and columns (inputs)."""

    @property
    def bytes(self) -> int:
        """Resident memory."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix with its bias [out], if it has one."""

    matrix: Matrix
    bias: Tensor | None = None


@dataclass(frozen=True, slots=True)
class RopeTable:
    """Rotation by position: cos and sin [positions, D / 2], computed in double, rounded once."""

    cos: Tensor
    sin: Tensor


@dataclass(frozen=True, slots=True)
class HeadNorm:
    """RMS norm of every head before rope: weight [D] and epsilon."""

    weight: Tensor
    eps: float


@dataclass(frozen=True, slots=True)
class Visibility:
    """How a layer looks at what the row table lets it see.

    Attributes:
        scale: factor on q·k.
        causal: rows of a span see only those before them, and themselves.
        window: a row sees keys at most `window - 1` places away; `None` for no limit.
        softcap: cap * tanh(score / cap), or `None`.
        sinks: [N] logits of an attention sink per head, or `None`.
    """

    scale: float
    causal: bool = True
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


class Operations(Protocol):
    """One back end."""

    @property
    def device(self) -> torch.device:
        """Where values live."""

    @property
    def dtype(self) -> torch.dtype:
        """Type of activations."""

    def alone(self) -> AbstractContextManager[None]:
        """While it is open, nothing but the back end uses more than one thread."""

    def now(self) -> float:
        """Seconds, for differences, once the device has finished what it was given."""

    def run(
        self,
        key: tuple[Hashable, ...],
        rows: Rows,
        inputs: tuple[Tensor, ...],
        body: Callable[[Rows, tuple[Tensor, ...]], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """Runs a pass: `body(rows, inputs)`, or what was recorded of it for the same shape.

        Args:
            key: everything the body depends on besides its arguments: the model, its state, taps.
            rows: the row table; its numbers are data, only T, W and the spans' sizes are shape.
            inputs: tensors [T, ...] from outside.
            body: calls operations and nothing else.

        Returns:
            What the body returned, valid until the next run with the same key.
        """

    def page_pool(
        self, layers: int, heads: int, head_dim: int, kind: KVType | None = None
    ) -> PagePool:
        """An empty pool of K/V pages for several layers.

        Args:
            layers: how many share the pages.
            heads: key/value heads.
            head_dim: values per head.
            kind: how K/V are stored; as the back end was told by default. One without types of
                its own stores them as it computes.
        """

    def matrix(self, raw: RawTensor) -> Matrix:
        """Takes a matrix [out, in] from a checkpoint."""

    def product(self, table: Matrix, factor: Matrix) -> Matrix:
        """table [V, H] times factor [R, H] transposed: a factored table [V, R] made whole."""

    def vector(self, raw: RawTensor, plus: float = 0.0) -> Tensor:
        """Takes a small tensor (norm, bias, kernel) of any shape, adding `plus` in fp32."""

    def rope(self, cos: Tensor, sin: Tensor) -> RopeTable:
        """Takes a rotation table from float64 [positions, D / 2]."""

    def embed(self, table: Matrix, rows: Rows, scale: float) -> Tensor:
        """[T, H]: each row's embedding times `scale`."""

    def norm(self, x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> Tensor:
        """RMS norm of [T, H] rows; plus `residual`, if given."""

    def linear(self, x: Tensor, linears: Sequence[Linear]) -> tuple[Tensor, ...]:
        """Several products of the same rows: [T, out] each."""

    def linear_residual(self, x: Tensor, linear: Linear, residual: Tensor) -> Tensor:
        """residual + linear(x)."""

    def gated(self, x: Tensor, gate: Linear, up: Linear, activation: Activation) -> Tensor:
        """activation(gate(x)) * up(x), [T, F]."""

    def rotate(
        self, x: Tensor, heads: int, norm: HeadNorm | None, rope: RopeTable, rows: Rows
    ) -> Tensor:
        """[T, heads * D] to [T, heads, D]: norm per head, then half-split rotation."""

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
        """Rotates keys [T, G * D] as `rotate` does and writes them with values to their places.

        Without pages nothing is written: the rows' keys and values come back beside the context.
        """

    def attend(self, q: Tensor, kv: KVPages | KVTensors, rows: Rows, sees: Visibility) -> Tensor:
        """Attention of [T, N, D] queries over what each row sees; [T, N * D]."""

    def convolve(
        self,
        x: Tensor,
        dynamic: Tensor,
        base: Tensor,
        side: int,
        rows: Rows,
        residual: Tensor | None = None,
    ) -> Tensor:
        """DFlash2's grouped dynamic convolution along each span, zero before its first row.

        `base` is [2, taps, H], `dynamic` [T, 2 * taps * groups] holds the rows' own coefficients,
        `side` picks input (0) or output (1). Tap 0 is the row itself, tap 1 the one before it.
        """

    def gather(self, x: Tensor, index: Tensor) -> Tensor:
        """Rows of x."""

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Values [T, H] side by side."""

    def head(
        self,
        x: Tensor,
        table: Matrix,
        multiplier: float = 1.0,
        softcap: float | None = None,
    ) -> Tensor:
        """Logits [W, V]: product, times `multiplier`, then the cap."""

    def top_k(self, logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k greatest logits of each row and their ids, descending, ties to the lowest id."""

    def renumber(self, numbers: Tensor, table: Tensor) -> Tensor:
        """Whole numbers of any shape, each replaced by that entry of `table` [N] int64."""

    def argmax(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Each row's greatest logit (NaN if there is one) and its id, ties to the lowest id."""

    def selector(
        self,
        unary: Tensor,
        candidates: Tensor,
        gate: Tensor,
        tables: tuple[Matrix, Matrix],
        rows: Rows,
    ) -> Tensor:
        """DFlash2's transition scores.

        `unary` and `candidates` are [M, K], `gate` [M, R], for the M drafted rows (all rows of
        each span but its anchor), `tables` the predecessor's and the successor's [V, R]. Returns
        [M, K, K]: entry [m, p, c] scores candidate c after candidate p of the row before; the first
        drafted row of a span follows the anchor, its scores are the same for every p.
        """
