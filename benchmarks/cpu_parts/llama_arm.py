"""llama.cpp through its C interface, as an arm: what is timed is `llama_decode` and no Python."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cpu_parts.arm import Logits
from cpu_parts.llama_api import Batch, ContextParams, Llama

_LARGEST = 512  # rows of a batch


class LlamaArm:
    """One model in one context, with the library's defaults but for sizes and threads."""

    def __init__(self, engine: str) -> None:
        self._api = Llama(engine)
        self._batch: Batch = self._api["llama_batch_init"](_LARGEST, 0, 1)
        self._length = 0
        self._next = 0

    def load(self, path: Path, threads: int, context: int) -> float:
        """See `Arm`; K/V are kept as llama.cpp does by default, in fp16."""
        api = self._api
        start = time.perf_counter()
        params = api["llama_model_default_params"]()
        self._model = api["llama_model_load_from_file"](str(path).encode(), params)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {path.name}")
        sizes: ContextParams = api["llama_context_default_params"]()
        sizes.n_ctx = context
        sizes.n_batch = sizes.n_ubatch = _LARGEST
        sizes.n_threads = sizes.n_threads_batch = threads
        self._context = api["llama_init_from_model"](self._model, sizes)
        if not self._context:
            raise RuntimeError(f"llama.cpp cannot make a context of {context} for {path.name}")
        taken = time.perf_counter() - start
        self._memory = api["llama_get_memory"](self._context)
        self._vocabulary = api["llama_vocab_n_tokens"](api["llama_model_get_vocab"](self._model))
        return taken

    def read(self, ids: Sequence[int]) -> None:
        """See `Arm`."""
        self._forget()
        for start in range(0, len(ids), _LARGEST):
            self._fill(ids[start : start + _LARGEST], wanted=False)
            self._decode()
            self._length += len(ids[start : start + _LARGEST])

    def passes(self, ids: Sequence[int], count: int) -> list[float]:
        """See `Arm`; the batch is filled beforehand, taking back is part of the time."""
        self._fill(ids, wanted=True)
        times = []
        for _ in range(count):
            start = time.perf_counter()
            self._decode()
            self._take_back()
            times.append(time.perf_counter() - start)
        return times

    def decode(self, first: int, tokens: int) -> float:
        """See `Arm`; the greatest logit is found by numpy, which is faster than the sampler."""
        length, token = self._length, first
        start = time.perf_counter()
        for _ in range(tokens):
            self._fill([token], wanted=True)
            self._decode()
            self._length += 1
            token = int(self._logits(1)[0].argmax())
        taken = time.perf_counter() - start
        self._length = length
        self._take_back()
        return taken

    def prefill(self, ids: Sequence[int]) -> float:
        """See `Arm`; at most one batch."""
        self._forget()
        self._fill(ids, wanted=False)
        self._batch.logits[len(ids) - 1] = 1
        start = time.perf_counter()
        self._decode()
        return time.perf_counter() - start

    def logits(self, ids: Sequence[int]) -> Logits:
        """See `Arm`."""
        self._fill(ids, wanted=True)
        self._decode()
        self._length += len(ids)
        return self._logits(len(ids)).copy()

    def kv_bytes(self) -> None:
        """Unknown to the interface."""

    def _forget(self) -> None:
        self._api["llama_memory_clear"](self._memory, True)
        self._length = 0

    def _take_back(self) -> None:
        if not self._api["llama_memory_seq_rm"](self._memory, 0, self._length, -1):
            raise RuntimeError("llama.cpp cannot take rows back")

    def _fill(self, ids: Sequence[int], wanted: bool) -> None:
        batch = self._batch
        assert len(ids) <= _LARGEST, "more rows than a batch has"
        batch.n_tokens = len(ids)
        for row, token in enumerate(ids):
            batch.token[row] = token
            batch.pos[row] = self._length + row
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = 0
            batch.logits[row] = wanted

    def _decode(self) -> None:
        status = self._api["llama_decode"](self._context, self._batch)
        self._api["llama_synchronize"](self._context)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")

    def _logits(self, rows: int) -> Logits:
        """A view of the last pass's logits, valid until the next."""
        pointer = self._api["llama_get_logits"](self._context)
        return np.ctypeslib.as_array(pointer, (rows, self._vocabulary))
