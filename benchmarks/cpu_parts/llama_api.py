"""The few functions of llama.cpp's C interface that are timed, for any library that exports them.

Only what is stable between versions is declared: the head of the context's parameters, whose
defaults are checked before anything is run, and room behind it for whatever follows.
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

_ROOM = 1024  # bytes for parameters whose layout is not needed; real ones have about 200


class ModelParams(ctypes.Structure):
    """`llama_model_params`, passed on as it comes."""

    _fields_ = (("opaque", ctypes.c_uint64 * (_ROOM // 8)),)


class ContextParams(ctypes.Structure):
    """The head of `llama_context_params`."""

    _fields_ = (
        ("n_ctx", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint32),
        ("n_ubatch", ctypes.c_uint32),
        ("n_seq_max", ctypes.c_uint32),
        ("n_rs_seq", ctypes.c_uint32),
        ("n_outputs_max", ctypes.c_uint32),
        ("n_outputs_max_per_seq", ctypes.c_uint32),
        ("n_threads", ctypes.c_int32),
        ("n_threads_batch", ctypes.c_int32),
        ("opaque", ctypes.c_uint8 * _ROOM),
    )


class Batch(ctypes.Structure):
    """`llama_batch`."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_HANDLE = ctypes.c_void_p
_FUNCTIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "llama_log_set": (None, (_LOG, ctypes.c_void_p)),
    "llama_backend_init": (None, ()),
    "llama_model_default_params": (ModelParams, ()),
    "llama_context_default_params": (ContextParams, ()),
    "llama_model_load_from_file": (_HANDLE, (ctypes.c_char_p, ModelParams)),
    "llama_init_from_model": (_HANDLE, (_HANDLE, ContextParams)),
    "llama_free": (None, (_HANDLE,)),
    "llama_model_free": (None, (_HANDLE,)),
    "llama_model_get_vocab": (_HANDLE, (_HANDLE,)),
    "llama_vocab_n_tokens": (ctypes.c_int32, (_HANDLE,)),
    "llama_get_memory": (_HANDLE, (_HANDLE,)),
    "llama_memory_clear": (None, (_HANDLE, ctypes.c_bool)),
    "llama_memory_seq_rm": (
        ctypes.c_bool,
        (_HANDLE, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32),
    ),
    "llama_batch_init": (Batch, (ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)),
    "llama_batch_free": (None, (Batch,)),
    "llama_decode": (ctypes.c_int32, (_HANDLE, Batch)),
    "llama_synchronize": (None, (_HANDLE,)),
    "llama_get_logits": (ctypes.POINTER(ctypes.c_float), (_HANDLE,)),
}

LIBRARIES = {"llama.cpp": ("llama_cpp", "lib/libllama.*"), "xllamacpp": ("xllamacpp", "*.so")}


def find_library(engine: str) -> Path:
    """The shared library of an engine installed in this environment."""
    package, pattern = LIBRARIES[engine]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"{engine}: the package {package} is not installed")
    found = sorted(Path(spec.origin).parent.glob(pattern))
    if not found:
        raise RuntimeError(f"{engine}: {package} has no {pattern}")
    return found[0]


class Llama:
    """A library, its functions declared and its log switched off."""

    def __init__(self, engine: str) -> None:
        self._library = ctypes.CDLL(str(find_library(engine)))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = self[name]
            function.restype = result  # type: ignore[assignment]
            function.argtypes = arguments  # type: ignore[assignment]
        self._quiet = _LOG(lambda _level, _text, _data: None)
        self["llama_log_set"](self._quiet, None)
        self["llama_backend_init"]()
        self._check_layout(engine)

    def __getitem__(self, name: str) -> ctypes._NamedFuncPointer:
        """A function by its name."""
        function: ctypes._NamedFuncPointer = getattr(self._library, name)
        return function

    def _check_layout(self, engine: str) -> None:
        params = self["llama_context_default_params"]()
        known = (params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max)
        if known != (512, 2048, 512, 1) or params.n_threads != params.n_threads_batch:
            raise RuntimeError(f"{engine}: llama_context_params has another layout: {known}")
        if not 1 <= params.n_threads <= 64:
            raise RuntimeError(f"{engine}: {params.n_threads} threads by default cannot be")
