"""Draft at every position of given texts in llama.cpp, with features from its own target.

    .referee/bin/python referee/llama_cpp_forced.py TARGET DRAFTER BLOCK MASK TAPS K CAUSAL THREADS

TAPS are layers joined by commas, 0 for the first; K is the selector's, CAUSAL 0 or 1. Reads lines
of JSON {"prompt": ids, "answer": ids} from stdin; writes for each the drafts
[len(answer), BLOCK - 1] behind every token of the answer. K/V as llama.cpp has them by default.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from llama_cpp import llama_cpp as api
from llama_cpp import llama_cpp_ext as extension

from llama_cpp_drafter import inject, load_model, new_context, run

_LENGTH = 2048


class Forced:
    """A target and a drafter, led along a text."""

    def __init__(
        self, target: Path, drafter: Path, taps: Sequence[int], causal: bool, threads: int
    ) -> None:
        library = api._lib
        self._enable = library._Z30llama_set_embeddings_layer_inpP13llama_contextjb
        self._enable.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_bool]
        self._enable.restype = None
        self._inputs = library._Z30llama_get_embeddings_layer_inpP13llama_contextj
        self._inputs.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
        self._inputs.restype = ctypes.POINTER(ctypes.c_float)
        self._taps = [tap + 1 for tap in taps]  # what a layer puts out is the next one's input
        models = [load_model(target), load_model(drafter)]

        def settle(params: object) -> None:
            params.n_ctx = params.n_batch = params.n_ubatch = _LENGTH
            params.n_threads = params.n_threads_batch = threads

        self._target = new_context(models[0], None, settle)
        self._drafter = new_context(models[1], self._target, settle)
        self._width = api.llama_model_n_embd(models[0])
        for tap in self._taps:
            self._enable(self._target, tap, True)
        extension.llama_set_embeddings_nextn(self._drafter, True, False)
        api.llama_set_causal_attn(self._drafter, causal)

    def features(self, ids: Sequence[int]) -> np.ndarray:
        """The taps' outputs [len(ids), T * H]."""
        api.llama_memory_clear(api.llama_get_memory(self._target), True)
        run(self._target, ids, 0, False)
        shape = (len(ids) * self._width,)
        parts = [
            np.ctypeslib.as_array(self._inputs(self._target, tap), shape) for tap in self._taps
        ]
        return np.concatenate([part.reshape(len(ids), -1) for part in parts], axis=1)

    def inject(self, features: np.ndarray, start: int) -> None:
        """Makes features the drafter's context from `start` on; what was behind goes."""
        memory = api.llama_get_memory(self._drafter)
        api.llama_memory_seq_rm(memory, 0, start, -1)
        inject(self._drafter, features, start)

    def draft(self, ids: Sequence[int], start: int, candidates: int) -> list[int]:
        """The path through a block."""
        run(self._drafter, ids, start, True)
        pointer = extension.llama_get_embeddings_nextn(self._drafter)
        rows = np.ctypeslib.as_array(pointer, (len(ids) * self._width,)).reshape(len(ids), -1)
        path, before = [], 0
        for row in rows[1:]:
            scores = row[candidates : candidates * (candidates + 1)].reshape(candidates, candidates)
            before = int(scores[before].argmax())
            path.append(int(row[before]))
        return path


def main(arguments: Sequence[str]) -> None:
    """Serves stdin."""
    target, drafter, block, mask, taps, candidates, causal, threads = arguments
    layers = [int(tap) for tap in taps.split(",")]
    forced = Forced(Path(target), Path(drafter), layers, causal == "1", int(threads))
    for line in sys.stdin:
        text = json.loads(line)
        prompt, answer = text["prompt"], text["answer"]
        features = forced.features([*prompt, *answer])
        forced.inject(features[: len(prompt)], 0)
        drafts = []
        for place, anchor in enumerate(answer, len(prompt)):
            ids = [anchor, *[int(mask)] * (int(block) - 1)]
            drafts.append(forced.draft(ids, place, int(candidates)))
            forced.inject(features[place : place + 1], place)
        print(json.dumps(drafts), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
