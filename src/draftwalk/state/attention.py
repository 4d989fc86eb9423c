"""The state of a model whose layers all attend: one `PagedKV` per window size."""

from __future__ import annotations

from collections.abc import Sequence

from draftwalk.ops import Operations
from draftwalk.ops.memory import KVPages, KVType
from draftwalk.state.model import ModelState
from draftwalk.state.pages import PagedKV


class AttentionState(ModelState):
    """K/V of a stack of attention layers.

    Args:
        windows: each layer's window, `None` where it sees everything.
        heads: key/value heads.
        head_dim: values per head.
        ops: the back end whose pages they are.
        kind: how K/V are stored; as the back end does by default.
    """

    def __init__(
        self,
        windows: Sequence[int | None],
        heads: int,
        head_dim: int,
        ops: Operations,
        kind: KVType | None = None,
    ) -> None:
        kinds = list(dict.fromkeys(windows))
        pages = [
            PagedKV(ops.page_pool(windows.count(window), heads, head_dim, kind), window, ops.device)
            for window in kinds
        ]
        super().__init__(pages)
        self._layers: list[tuple[PagedKV, int]] = []
        for layer, window in enumerate(windows):
            self._layers.append((pages[kinds.index(window)], windows[:layer].count(window)))

    def layer(self, index: int) -> KVPages:
        """The K/V of layer `index`."""
        kind, row = self._layers[index]
        return kind.layer(row)
