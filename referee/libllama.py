"""Ask llama.cpp (inside llama-cpp-python) for the logits of every position of a text.

K and V are kept in fp32 and flash attention is off, so that what is left of rounding is the
product of quantised weights with activations that llama.cpp rounds to 8 bits.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import numpy as np
from llama_cpp import llama_cpp as api

_F32 = 0
_FLASH_ATTENTION_OFF = 0


@api.llama_log_callback
def _silent(_level: int, _text: bytes, _user_data: object) -> None:
    """llama.cpp reports every tensor it loads; errors come back as return values anyway."""


class LlamaModel:
    """One GGUF file, run on the CPU."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        api.llama_log_set(_silent, None)
        api.llama_backend_init()
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = api.llama_model_load_from_file(str(path).encode(), params)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        self._vocabulary = api.llama_model_get_vocab(self._model)
        self._threads = threads

    def __enter__(self) -> LlamaModel:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        api.llama_model_free(self._model)

    def tokenize(self, text: str, add_special: bool) -> list[int]:
        """Token ids of a text; special tokens written in it stay text."""
        data = text.encode()
        room = len(data) + 8
        ids = (api.llama_token * room)()
        count = api.llama_tokenize(self._vocabulary, data, len(data), ids, room, add_special, False)
        if count < 0:
            raise RuntimeError(f"llama.cpp cannot tokenize a text of {len(data)} bytes")
        return list(ids[:count])

    def logits(self, ids: list[int]) -> np.ndarray:
        """Logits of every position, [len(ids), vocabulary] in fp32, in one pass without a past."""
        context = self._new_context(len(ids))
        batch = api.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for row, token in enumerate(ids):
            batch.token[row] = token
            batch.pos[row] = row
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = 0
            batch.logits[row] = 1
        try:
            status = api.llama_decode(context, batch)
            if status != 0:
                raise RuntimeError(f"llama_decode of {len(ids)} tokens returned {status}")
            width = api.llama_vocab_n_tokens(self._vocabulary)
            flat = np.ctypeslib.as_array(api.llama_get_logits(context), (len(ids) * width,))
            return flat.reshape(len(ids), width).copy()
        finally:
            api.llama_batch_free(batch)
            api.llama_free(context)

    def _new_context(self, length: int) -> object:
        params = api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = max(length, 64)
        params.n_threads = params.n_threads_batch = self._threads
        params.type_k = params.type_v = _F32
        params.flash_attn_type = _FLASH_ATTENTION_OFF
        context = api.llama_init_from_model(self._model, params)
        if not context:
            raise RuntimeError(f"llama.cpp cannot make a context of {length} tokens")
        return context
