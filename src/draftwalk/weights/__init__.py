"""Checkpoints: GGUF files and Hugging Face folders, behind one set of names.

Whatever a file calls them, tensors and settings come out under Hugging Face's names ("canonical"),
so an architecture is written once. Nothing is unpacked here: a `RawTensor` is bytes in a block
format.

Who knows what:

* `gguf.py` and `safetensors_file.py` know the containers. Files are untrusted: every count is
  checked before use, and a bad file gives one `CheckpointError`.
* `names.py` and `gguf_config.py` know what all architectures share in GGUF.
* A `Dialect`, declared in an architecture's own file, adds or replaces names and keys, derives what
  GGUF leaves out, and may permute rows (`adapt`). So a new architecture is one new file, elsewhere.
* `TensorSource` makes sure that a model takes every tensor, each with its shape.

    checkpoint = open_checkpoint(path, dialects)
    source = TensorSource(checkpoint.tensors, checkpoint.path.name)
    raw = source.take("model.norm.weight", (width,))
    source.finish()
"""

from __future__ import annotations

from draftwalk.weights.checkpoint import Checkpoint
from draftwalk.weights.dialect import Dialect, Key
from draftwalk.weights.fields import Fields
from draftwalk.weights.gguf import GgufFile
from draftwalk.weights.gguf_checkpoint import GgufCheckpoint, name_map
from draftwalk.weights.gguf_writer import Typed, write_gguf
from draftwalk.weights.opening import open_checkpoint
from draftwalk.weights.planned import PlannedTensor
from draftwalk.weights.safetensors_folder import SafetensorsFolder
from draftwalk.weights.safetensors_writer import write_safetensors
from draftwalk.weights.source import TensorSource
from draftwalk.weights.tensor import RawTensor, pack_integers, pack_tensor, permute_rows

__all__ = [
    "Checkpoint",
    "Dialect",
    "Fields",
    "GgufCheckpoint",
    "GgufFile",
    "Key",
    "PlannedTensor",
    "RawTensor",
    "SafetensorsFolder",
    "TensorSource",
    "Typed",
    "name_map",
    "open_checkpoint",
    "pack_integers",
    "pack_tensor",
    "permute_rows",
    "write_gguf",
    "write_safetensors",
]
