"""Drive a drafter in llama.cpp: inject features, run one block, read logits or the lattice.

`common/speculative`, which does this in llama-server, is not exported; the functions it uses are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from llama_cpp import llama_cpp as api
from llama_cpp import llama_cpp_ext as extension

_F32 = 0
_OFF = 0
_LOG: list[str] = []


@api.llama_log_callback
def _keep(_level: int, text: bytes, _user_data: object) -> None:
    """The last lines say why a model was refused."""
    _LOG.append(text.decode(errors="replace"))
    del _LOG[:-20]


class RefusedError(RuntimeError):
    """llama.cpp does not load or run a file; its own last words."""


class LlamaDrafter:
    """A drafter and the target whose tables it borrows."""

    def __init__(self, drafter: Path, target: Path, causal: bool) -> None:
        self._models = [load_model(target), load_model(drafter)]
        self._contexts = [new_context(self._models[0], None, _exact)]
        self._contexts.append(new_context(self._models[1], self._contexts[0], _exact))
        self._drafter = self._contexts[1]
        extension.llama_set_embeddings_nextn(self._drafter, True, False)
        api.llama_set_causal_attn(self._drafter, causal)

    def __enter__(self) -> LlamaDrafter:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for context in reversed(self._contexts):
            api.llama_free(context)
        for model in reversed(self._models):
            api.llama_model_free(model)

    def block(self, features: np.ndarray, ids: list[int]) -> None:
        """Injects features [P, T * H] at places 0 to P - 1 and runs `ids` behind them."""
        inject(self._drafter, features, 0)
        run(self._drafter, ids, len(features), True)

    def logits(self, rows: int, vocabulary: int) -> np.ndarray:
        """Of the block's rows [rows, V]."""
        return _floats(api.llama_get_logits(self._drafter), rows, vocabulary)

    def lattice(self, rows: int, width: int, candidates: int) -> tuple[np.ndarray, np.ndarray]:
        """Candidates [rows - 1, K] and scores [rows - 1, K, K] by predecessor."""
        packed = _floats(extension.llama_get_embeddings_nextn(self._drafter), rows, width)[1:]
        ids = packed[:, :candidates].astype(np.int64)
        scores = packed[:, candidates : candidates * (candidates + 1)]
        return ids, scores.reshape(-1, candidates, candidates)


def load_model(path: Path) -> object:
    """A model on the CPU."""
    api.llama_log_set(_keep, None)
    api.llama_backend_init()
    params = api.llama_model_default_params()
    params.n_gpu_layers = 0
    model = api.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise RefusedError(f"llama.cpp cannot load {path}: {''.join(_LOG[-5:])}")
    return model


def new_context(model: object, other: object, settle: Callable[[object], None]) -> object:
    """A context; `settle` sets its parameters, `other` lends a drafter its target's tables."""
    params = api.llama_context_default_params()
    settle(params)
    if other is not None:
        params.ctx_other = other
    context = api.llama_init_from_model(model, params)
    if not context:
        raise RefusedError(f"llama.cpp makes no context: {''.join(_LOG[-5:])}")
    return context


def _exact(params: object) -> None:
    params.n_ctx = params.n_batch = params.n_ubatch = 256
    params.n_threads = params.n_threads_batch = 1
    params.type_k = params.type_v = _F32
    params.flash_attn_type = _OFF


def inject(context: object, features: np.ndarray, start: int) -> None:
    """Makes features [P, T * H] a drafter's context at places from `start` on."""
    rows, width = features.shape
    batch = api.llama_batch_init(rows, width, 1)
    flat = np.ascontiguousarray(features, dtype=np.float32)
    ctypes.memmove(batch.embd, flat.ctypes.data, flat.nbytes)
    _decode(context, batch, rows, start, False)


def run(context: object, ids: Sequence[int], start: int, wanted: bool) -> None:
    """Runs tokens at places from `start` on; `wanted` keeps the logits of all."""
    batch = api.llama_batch_init(len(ids), 0, 1)
    for row, token in enumerate(ids):
        batch.token[row] = token
    _decode(context, batch, len(ids), start, wanted)


def _decode(context: object, batch: object, rows: int, start: int, wanted: bool) -> None:
    batch.n_tokens = rows
    for row in range(rows):
        batch.pos[row] = start + row
        batch.n_seq_id[row] = 1
        batch.seq_id[row][0] = 0
        batch.logits[row] = int(wanted)
    status = api.llama_decode(context, batch)
    api.llama_batch_free(batch)
    if status != 0:
        raise RefusedError(f"llama_decode returned {status}: {''.join(_LOG[-5:])}")


def _floats(pointer: object, rows: int, width: int) -> np.ndarray:
    return np.ctypeslib.as_array(pointer, (rows * width,)).reshape(rows, width).copy()
