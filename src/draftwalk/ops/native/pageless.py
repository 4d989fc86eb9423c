"""Attention over plain K/V tensors: they are written to pages of their own first.

Only training and its tests have K/V outside of pages, so this is written to be right, not fast; it
runs at once and cannot be recorded, since the context's size is no part of a pass's shape.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftwalk.ops import Operations, RopeTable
from draftwalk.ops.memory import PAGE, KVPages, KVTensors, PageTables
from draftwalk.rows import Rows, Rowset


def as_pages(ops: Operations, kv: KVTensors, rows: Rows) -> KVPages:
    """Pages of one layer with the context and the pass's own rows at their places."""
    _, heads, head_dim = kv.k.shape
    tables = [[0] * -(-(span.context + span.size) // PAGE) for span in rows.spans]
    pool = ops.page_pool(1, heads, head_dim)
    pool.grow(sum(map(len, tables)))
    shown = torch.full((1 + max(s.sequence for s in rows.spans), max(map(len, tables))), -1)
    shown = shown.to(torch.int32)
    first = 0
    for span, table in zip(rows.spans, tables, strict=True):
        shown[span.sequence, : len(table)] = torch.arange(first, first + len(table))
        first += len(table)
    pages = KVPages(pool, 0, PageTables(shown))
    sets = [Rowset(s.sequence, [0] * (s.context + s.size), 0, "none") for s in rows.spans]
    every = Rows.lay_out(sets, torch.device("cpu"))
    k, v = _joined(kv, rows, 0), _joined(kv, rows, 1)
    ops.remember(k, v, heads, None, _standing(every.size, head_dim), pages, every)
    return pages


def _joined(kv: KVTensors, rows: Rows, which: int) -> Tensor:
    """Keys or values [places, G * D] of all spans, each its context and then its rows."""
    parts = []
    for span in rows.spans:
        parts.append(kv.contexts[span.sequence][which][: span.context])
        parts.append((kv.k, kv.v)[which][span.start : span.stop])
    return torch.cat(parts).flatten(1)


def _standing(positions: int, head_dim: int) -> RopeTable:
    """A rotation that leaves everything as it is."""
    zero = torch.zeros(positions, head_dim // 2)
    return RopeTable(zero + 1, zero)
