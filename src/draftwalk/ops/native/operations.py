"""Operations as calls of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftwalk import _native
from draftwalk.ops import Activation, HeadNorm, Linear, Matrix, RopeTable, Visibility
from draftwalk.ops.memory import KVContext, KVPages, KVTensors, KVType
from draftwalk.ops.native.matrix import NativeMatrix, native, pack
from draftwalk.ops.native.pageless import as_pages
from draftwalk.ops.native.pages import NativePool
from draftwalk.ops.native.runner import Runner
from draftwalk.ops.native.tape import GROUP
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.rows import Rows
from draftwalk.weights.tensor import RawTensor, pack_tensor

_ROWS_AT_ONCE = 1024  # of a table that is made whole


class NativeOperations(Runner):
    """The native back end."""

    def page_pool(
        self, layers: int, heads: int, head_dim: int, kind: KVType | None = None
    ) -> NativePool:
        """Pages in the back end's K/V type, or another."""
        return NativePool(layers, heads, head_dim, kind or self.kv)

    def matrix(self, raw: RawTensor) -> NativeMatrix:
        """Packs a matrix."""
        return pack(raw, self._runtime)

    def product(self, table: Matrix, factor: Matrix) -> NativeMatrix:
        """Makes a factored table whole in fp32, from both as they are stored."""
        left, right = native(table), native(factor)
        V, R = left.shape[0], right.shape[0]
        whole = Linear(self._floats("factor", self._unpack(right, 0, R)))
        out = torch.empty((V, R))
        for start in range(0, V, _ROWS_AT_ONCE):
            stop = min(start + _ROWS_AT_ONCE, V)
            (out[start:stop],) = self.linear(self._unpack(left, start, stop), (whole,))
        return self._floats("product", out)

    def vector(self, raw: RawTensor, plus: float = 0.0) -> Tensor:
        """Unpacks a small tensor."""
        values = torch.from_numpy(raw.unpack())
        return values + plus if plus else values.clone()

    def rope(self, cos: Tensor, sin: Tensor) -> RopeTable:
        """Rounds a rotation table once."""
        return RopeTable(cos.float().contiguous(), sin.float().contiguous())

    def embed(self, table: Matrix, rows: Rows, scale: float) -> Tensor:
        """Unpacks the rows' embeddings."""
        tape, matrix = self._tape, native(table)
        out = tape.new((rows.size, matrix.shape[1]))
        tape.keep(matrix.packed)
        _native.embed(tape.program, matrix.packed, tape.rows(rows), scale, out.data_ptr())
        return self._done(out)

    def norm(self, x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> Tensor:
        """RMS norm of rows."""
        tape = self._tape
        out = tape.new(tuple(x.shape))
        rows, width = x.shape
        call = _native.norm(
            tape.program,
            tape.floats(x),
            tape.floats(weight),
            tape.floats(residual),
            out.data_ptr(),
            rows,
            width,
            eps,
        )
        return self._done(tape.made(out, call))

    def linear(self, x: Tensor, linears: Sequence[Linear]) -> tuple[Tensor, ...]:
        """Products of the same rows."""
        return self._products(x, tuple(linears))

    def linear_residual(self, x: Tensor, linear: Linear, residual: Tensor) -> Tensor:
        """Product plus residual."""
        return self._products(x, (linear,), residual)[0]

    def gated(self, x: Tensor, gate: Linear, up: Linear, activation: Activation) -> Tensor:
        """Both products and what is between them."""
        tape = self._tape
        out = tape.new((len(x), gate.matrix.shape[0]))
        floats, companion = self._both(x, (gate, up))
        call = _native.gated(
            tape.program,
            native(gate.matrix).packed,
            tape.floats(gate.bias),
            native(up.matrix).packed,
            tape.floats(up.bias),
            floats,
            companion,
            len(x),
            activation,
            out.data_ptr(),
        )
        return self._done(tape.made(out, call))

    def rotate(
        self, x: Tensor, heads: int, norm: HeadNorm | None, rope: RopeTable, rows: Rows
    ) -> Tensor:
        """Norm per head and rotation."""
        tape = self._tape
        head_dim = x.shape[1] // heads
        out = tape.new((len(x), heads, head_dim))
        _native.rotate(
            tape.program,
            tape.floats(x),
            out.data_ptr(),
            heads,
            head_dim,
            *self._rotation(norm, rope),
            tape.rows(rows),
        )
        return self._done(out)

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
        """Rotates keys and writes both to the rows' places."""
        if isinstance(into, KVContext):
            self._only_at_once()
            rotated = self.rotate(k, heads, norm, rope, rows)
            return KVTensors(into.contexts, rotated, v.view(rotated.shape))
        tape = self._tape
        _native.remember(
            tape.program,
            tape.floats(k),
            tape.floats(v),
            *self._rotation(norm, rope),
            self._pool(into).address,
            into.layer,
            tape.page_table(into.tables),
            tape.rows(rows),
        )
        tape.end()
        return into

    def attend(self, q: Tensor, kv: KVPages | KVTensors, rows: Rows, sees: Visibility) -> Tensor:
        """Attention over pages."""
        if isinstance(kv, KVTensors):
            self._only_at_once()
            kv = as_pages(self, kv, rows)
        tape = self._tape
        T, heads, head_dim = q.shape
        out = tape.new((T, heads * head_dim))
        call = _native.attend(
            tape.program,
            tape.floats(q),
            out.data_ptr(),
            heads,
            self._pool(kv).address,
            kv.layer,
            tape.page_table(kv.tables),
            tape.rows(rows),
            sees.scale,
            sees.causal,
            sees.window or 0,
            sees.softcap or 0.0,
            tape.floats(sees.sinks),
        )
        return self._done(out if head_dim % GROUP else tape.made(out, call))

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
        tape = self._tape
        out = tape.new(tuple(x.shape))
        taps, width = base.shape[1:]
        call = _native.convolve(
            tape.program,
            tape.floats(x),
            tape.floats(dynamic),
            tape.floats(base),
            side,
            taps,
            dynamic.shape[1] // (2 * taps),
            width,
            tape.floats(residual),
            out.data_ptr(),
            tape.rows(rows),
        )
        return self._done(tape.made(out, call))

    def gather(self, x: Tensor, index: Tensor) -> Tensor:
        """Rows of x."""
        tape = self._tape
        out = tape.new((len(index), x.shape[1]))
        _native.gather(tape.program, tape.floats(x), tape.whole(index), out.data_ptr(), *out.shape)
        return self._done(out)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Side by side."""
        tape = self._tape
        widths = [part.shape[1] for part in parts]
        out = tape.new((len(parts[0]), sum(widths)))
        places = [tape.floats(part) for part in parts]
        _native.join(tape.program, places, widths, len(out), out.data_ptr())
        return self._done(out)

    def head(
        self,
        x: Tensor,
        table: Matrix,
        multiplier: float = 1.0,
        softcap: float | None = None,
    ) -> Tensor:
        """Logits, multiplied before they are capped."""
        return self._products(x, (Linear(table),), None, multiplier, softcap or 0.0)[0]

    def top_k(self, logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Greatest logits and their ids."""
        tape = self._tape
        rows, vocabulary = logits.shape
        values, ids = tape.new((rows, k)), tape.new((rows, k), torch.int64)
        _native.top_k(
            tape.program,
            tape.floats(logits),
            rows,
            vocabulary,
            k,
            values.data_ptr(),
            ids.data_ptr(),
        )
        tape.end()
        return values, ids

    def renumber(self, numbers: Tensor, table: Tensor) -> Tensor:
        """Gathers: that copies bytes, and a whole number has those of two floats."""
        tape = self._tape
        out = tape.new(tuple(numbers.shape), torch.int64)
        places = tape.whole(table), tape.whole(numbers)
        _native.gather(tape.program, *places, out.data_ptr(), numbers.numel(), 2)
        return self._done(out)

    def argmax(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Greatest logits and their ids."""
        tape = self._tape
        rows, vocabulary = logits.shape
        values, ids = tape.new((rows,)), tape.new((rows,), torch.int64)
        _native.argmax(
            tape.program,
            tape.floats(logits),
            rows,
            vocabulary,
            values.data_ptr(),
            ids.data_ptr(),
        )
        tape.end()
        return values, ids

    def selector(
        self,
        unary: Tensor,
        candidates: Tensor,
        gate: Tensor,
        tables: tuple[Matrix, Matrix],
        rows: Rows,
    ) -> Tensor:
        """Transition scores of all predecessors."""
        tape = self._tape
        drafted, k = candidates.shape
        out = tape.new((drafted, k, k))
        before, after = native(tables[0]).packed, native(tables[1]).packed
        tape.keep(before)
        tape.keep(after)
        _native.selector(
            tape.program,
            tape.floats(unary),
            tape.whole(candidates),
            tape.floats(gate),
            before,
            after,
            drafted,
            k,
            tape.rows(rows),
            out.data_ptr(),
        )
        return self._done(out)

    def _unpack(self, matrix: NativeMatrix, start: int, stop: int) -> Tensor:
        """Rows of a matrix in fp32."""
        tape = self._tape
        index = torch.arange(start, stop)
        out = tape.new((stop - start, matrix.shape[1]))
        tape.keep(matrix.packed)
        _native.unpack(tape.program, matrix.packed, tape.whole(index), len(index), out.data_ptr())
        return self._done(out)

    def _floats(self, name: str, values: Tensor) -> NativeMatrix:
        return self.matrix(pack_tensor(name, values.numpy(), F32))
