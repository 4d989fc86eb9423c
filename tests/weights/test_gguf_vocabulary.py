"""What a GGUF file says about tokens: types, lengths, stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftwalk.errors import CheckpointError
from draftwalk.weights import GgufCheckpoint, GgufFile, Typed
from draftwalk.weights.gguf_values import Value, ValueType
from support.gguf_bytes import BOOL, FLOAT32, INT8, INT32, INT64, STRING, UINT8
from support.toy_checkpoint import TOY, write_toy

Changes = dict[str, Value | Typed | None]


def opened(tmp_path: Path, changes: Changes) -> GgufCheckpoint:
    return GgufCheckpoint(GgufFile(write_toy(tmp_path / "toy.gguf", changes)), TOY)


ARRAYS = {"tokens": STRING, "scores": FLOAT32, "token_type": INT32, "merges": STRING}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("kind", [UINT8, INT8, INT32, INT64, FLOAT32, BOOL, STRING])
def test_each_vocabulary_array_with_each_element_type(tmp_path: Path, name: str, kind: int) -> None:
    integers = (UINT8, INT8, INT32, INT64)
    fits = kind == ARRAYS[name] or (ARRAYS[name] == INT32 and kind in integers)
    changes: Changes = {
        f"tokenizer.ggml.{name}": Typed(ValueType(kind), _filled(kind)),
        "tokenizer.ggml.eos_token_id": None,
    }
    if fits:
        assert opened(tmp_path, changes).metadata[f"tokenizer.ggml.{name}"] == _filled(kind)
        return
    with pytest.raises(CheckpointError, match=rf"tokenizer\.ggml\.{name} is no array of"):
        opened(tmp_path, changes)


def _filled(kind: int) -> list[str] | list[bool] | list[float] | list[int]:
    if kind == STRING:
        return ["a"] * 6
    if kind == BOOL:
        return [True] * 6
    return [1.0] * 6 if kind == FLOAT32 else [1] * 6


@pytest.mark.parametrize("name", ["scores", "token_type"])
@pytest.mark.parametrize("length", [0, 5, 7])
def test_vocabulary_arrays_of_another_length(tmp_path: Path, name: str, length: int) -> None:
    kind = ValueType.FLOAT32 if name == "scores" else ValueType.INT32
    changes: Changes = {f"tokenizer.ggml.{name}": Typed(kind, [1] * length)}
    with pytest.raises(CheckpointError, match=f"has {length} values for 6 tokens"):
        opened(tmp_path, changes)


def test_a_vocabulary_key_that_is_no_array(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.ggml\.merges is no array"):
        opened(tmp_path, {"tokenizer.ggml.merges": "a b"})


def test_generation_settings(tmp_path: Path) -> None:
    changes: Changes = {
        "tokenizer.ggml.eot_token_id": 5,
        "tokenizer.ggml.eom_token_id": 4,
        "tokenizer.ggml.bos_token_id": 3,
        "tokenizer.ggml.suppress_tokens": [0, 1],
        "general.sampling.temp": 0.5,
        "general.sampling.top_k": 40,
    }
    assert opened(tmp_path, changes).generation == {
        "eos_token_id": [4, 5],
        "bos_token_id": 3,
        "suppress_tokens": [0, 1],
        "temperature": 0.5,
        "top_k": 40,
        "do_sample": True,
    }
    with pytest.raises(CheckpointError, match=r"eos_token_id is -1, expected an integer from 0"):
        opened(tmp_path, {"tokenizer.ggml.eos_token_id": Typed(ValueType.INT32, -1)})
