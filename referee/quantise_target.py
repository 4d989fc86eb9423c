"""Pack a target's matrices into another type by llama.cpp's own quantiser.

    .referee/bin/python referee/quantise_target.py SOURCE.gguf OUT.gguf Q4_0|Q4_1|Q8_0

Tensors that are quantised already are unpacked and packed again; which types they take is
llama.cpp's choice, as for its users.
"""

from __future__ import annotations

import argparse
import ctypes
from pathlib import Path

from llama_cpp import llama_cpp as api

_TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7}  # llama_ftype


@api.llama_log_callback
def _silent(_level: int, _text: bytes, _user_data: object) -> None:
    """It tells every tensor."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="quantise a GGUF file with llama.cpp")
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("type", choices=_TYPES)
    asked = parser.parse_args()
    api.llama_log_set(_silent, None)
    api.llama_backend_init()
    params = api.llama_model_quantize_default_params()
    params.ftype = _TYPES[asked.type]
    params.nthread = 2
    params.allow_requantize = True
    source, out = str(asked.source).encode(), str(asked.out).encode()
    status = api.llama_model_quantize(source, out, ctypes.byref(params))
    if status != 0:
        raise SystemExit(f"llama_model_quantize returned {status}")


if __name__ == "__main__":
    main()
