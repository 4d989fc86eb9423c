"""Record what llama.cpp's quantiser makes of drafters: the type of every tensor, and its error.

    PYTHONPATH=src:tests .referee/bin/python referee/drafter_quantisation.py

Writes tests/fixtures/llama_cpp_quantisation.json: for the packaged drafter (unpacked to floats) and
the wide drafter of the interchange tests, per type of file, each tensor's format and the sum of
squared differences that packing leaves.
"""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

import numpy as np
from llama_cpp import llama_cpp as api

from draftwalk.convert.types import MIXES
from draftwalk.draft.pairing import packaged_drafters
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.weights import GgufFile, pack_tensor, write_gguf
from fixtures import FIXTURES, write_json
from support.interchange_cases import CASES
from support.interchange_cases import write as write_drafter

_NUMBERS = {name: mix.number for name, mix in MIXES.items() if mix.quantised}


@api.llama_log_callback
def _silent(_level: int, _text: bytes, _user_data: object) -> None:
    """It tells every tensor."""


def main() -> None:
    """Rewrite the recording."""
    api.llama_log_set(_silent, None)
    api.llama_backend_init()
    recorded: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wide = next(case for case in CASES if case.name == "types")
        sources = {
            "packaged": unpacked(packaged_drafters()[0], place / "packaged.gguf"),
            "wide": write_drafter(wide, "f32", place / "wide.gguf"),
        }
        for name, source in sources.items():
            for kind, number in _NUMBERS.items():
                recorded[f"{name}.{kind}"] = quantised(source, number, place / "out.gguf")
                print(f"{name} {kind}: done")
    write_json(FIXTURES / "llama_cpp_quantisation.json", recorded)


def unpacked(path: Path, beside: Path) -> Path:
    """The same weights as floats."""
    file = GgufFile(path)
    tensors = [pack_tensor(name, raw.unpack(), F32) for name, raw in file.tensors.items()]
    write_gguf(beside, file.metadata, tensors)
    return beside


def quantised(source: Path, number: int, out: Path) -> dict[str, list[object]]:
    """By tensor: the format that was chosen, and the sum of squared differences."""
    params = api.llama_model_quantize_default_params()
    params.ftype = number
    params.nthread = 2
    status = api.llama_model_quantize(str(source).encode(), str(out).encode(), ctypes.byref(params))
    if status != 0:
        raise RuntimeError(f"llama_model_quantize returned {status}")
    before, after = GgufFile(source).tensors, GgufFile(out).tensors
    result: dict[str, list[object]] = {}
    for name, raw in after.items():
        difference = raw.unpack().astype(np.float64) - before[name].unpack()
        result[name] = [raw.format.NAME, float(np.square(difference).sum())]
    return result


if __name__ == "__main__":
    main()
