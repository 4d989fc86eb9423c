"""The same model in another block format: matrices unpacked and packed again, all else as it is."""

from __future__ import annotations

from pathlib import Path

from draftwalk.quant import PackingFormat, formats_by_name
from draftwalk.weights import GgufFile, RawTensor, pack_tensor, write_gguf
from draftwalk.weights.gguf_values import Value

_EMBEDDING = "token_embd.weight"
_FILE_TYPES = {"Q4_0": 2, "Q8_0": 7}  # llama.cpp's names for whole files; informative


def requantise(source: Path, path: Path, format_name: str, recipe: str) -> None:
    """Writes `path`; the embedding stays as it is stored, as llama.cpp keeps tied ones finer.

    Args:
        source: a GGUF file.
        path: the file to write.
        format_name: block format of all matrices but the embedding.
        recipe: written into the file, so that an older one is not taken for it.
    """
    file = GgufFile(source)
    format_ = formats_by_name()[format_name]
    assert isinstance(format_, PackingFormat), f"{format_name} cannot be written"
    tensors = [_repacked(raw, format_) for raw in file.tensors.values()]
    metadata: dict[str, Value] = {
        **file.metadata,
        "general.file_type": _FILE_TYPES[format_name],
        "general.name": f"{file.metadata.get('general.name')}, {recipe}",
    }
    write_gguf(path, metadata, tensors)


def _repacked(raw: RawTensor, format_: PackingFormat) -> RawTensor:
    if len(raw.shape) < 2 or raw.name == _EMBEDDING:
        return raw
    return pack_tensor(raw.name, raw.unpack(), format_)
