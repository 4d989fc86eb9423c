"""Ask llama.cpp (inside llama-cpp-python) what the tokenizer of a GGUF file does."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from gguf import GGUFReader, GGUFWriter
from llama_cpp import llama_cpp as api

_PIECE = 4096


@api.llama_log_callback
def _silent(_level: int, _text: bytes, _user_data: object) -> None:
    """Errors come back as return values."""


class LlamaVocabulary:
    """The tokenizer of one GGUF file."""

    def __init__(self, path: Path) -> None:
        api.llama_log_set(_silent, None)
        api.llama_backend_init()
        params = api.llama_model_default_params()
        params.vocab_only = True
        model = api.llama_model_load_from_file(str(path).encode(), params)
        if not model:
            raise RuntimeError(f"llama.cpp cannot load the vocabulary of {path}")
        self._vocabulary = api.llama_model_get_vocab(model)
        self.size: int = api.llama_vocab_n_tokens(self._vocabulary)

    def encode(self, text: str, special: bool, add_bos: bool = False) -> list[int]:
        """Token ids; half surrogate pairs are given to llama.cpp as U+FFFD."""
        data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        room = len(data) + 16
        ids = (api.llama_token * room)()
        count = api.llama_tokenize(self._vocabulary, data, len(data), ids, room, add_bos, special)
        if count < 0:
            raise RuntimeError(f"llama.cpp cannot tokenize {text!r}")
        return list(ids[:count])

    def piece(self, index: int, special: bool) -> bytes:
        """The bytes of one token."""
        buffer = ctypes.create_string_buffer(_PIECE)
        size = api.llama_token_to_piece(self._vocabulary, index, buffer, _PIECE, 0, special)
        if size < 0:
            raise RuntimeError(f"token {index} has over {_PIECE} bytes")
        return buffer.raw[:size]

    def stop_ids(self) -> list[int]:
        """Tokens that end a generation."""
        return [
            index for index in range(self.size) if api.llama_vocab_is_eog(self._vocabulary, index)
        ]


def read_tokenizer(path: Path) -> dict[str, object]:
    """The tokenizer's keys of a GGUF file, as plain Python values."""
    fields = GGUFReader(path).fields
    return {key: field.contents() for key, field in fields.items() if key.startswith("tokenizer")}


def write_tokenizer(path: Path, metadata: Mapping[str, object]) -> None:
    """A GGUF file without tensors that has these keys."""
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            assert isinstance(value, str), f"{key} has an unexpected type"
            writer.add_string(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
