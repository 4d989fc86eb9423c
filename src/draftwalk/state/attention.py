"""The state of a model whose layers all attend: one `PagedKV` per window size."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from draftwalk.state.model import ModelState
from draftwalk.state.pages import LayerPages, PagedKV


class AttentionState(ModelState):
    """K/V of a stack of attention layers.

    Args:
        windows: each layer's window, `None` where it sees everything.
        heads: key/value heads.
        head_dim: values per head.
        dtype: type of the stored values.
        device: where they live.
    """

    def __init__(
        self,
        windows: Sequence[int | None],
        heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        kinds = list(dict.fromkeys(windows))
        pages = [
            PagedKV(windows.count(window), heads, head_dim, window, dtype, device)
            for window in kinds
        ]
        super().__init__(pages)
        self._layers: list[tuple[PagedKV, int]] = []
        for layer, window in enumerate(windows):
            self._layers.append((pages[kinds.index(window)], windows[:layer].count(window)))

    def layer(self, index: int) -> LayerPages:
        """The pages of layer `index` for the pass that has begun."""
        kind, row = self._layers[index]
        return kind.layer(row)
