from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from draftwalk.errors import CheckpointError
from draftwalk.weights import SafetensorsFolder, open_checkpoint
from draftwalk.weights.safetensors_file import read_safetensors

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "eos_token_id": 2}


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def folder(tmp_path: Path, config: object = CONFIG) -> Path:
    write_json(tmp_path / "config.json", config)
    return tmp_path


def stored(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def about(dtype: str = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_floats_equal_the_library(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {
        "a": torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).to(dtype),
        "b": torch.tensor(1.5, dtype=dtype),
        "empty": torch.zeros(0, 4, dtype=dtype),
    }
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    ours = read_safetensors(tmp_path / "x.safetensors")
    assert set(ours) == set(tensors)
    for name, tensor in tensors.items():
        assert ours[name].shape == tuple(tensor.shape)
        assert np.array_equal(ours[name].unpack(), tensor.float().numpy())


def test_integers_and_masks(tmp_path: Path) -> None:
    tensors = {"d2t": torch.tensor([0, 3, 1 << 40]), "t2d": torch.tensor([True, False, True])}
    save_file(tensors, tmp_path / "x.safetensors")
    ours = read_safetensors(tmp_path / "x.safetensors")
    assert ours["d2t"].integers().tolist() == [0, 3, 1 << 40]
    assert ours["t2d"].integers().tolist() == [1, 0, 1]


def test_floats_are_no_integers(tmp_path: Path) -> None:
    save_file({"d2t": torch.ones(2)}, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="d2t is stored as F32 where integers"):
        read_safetensors(tmp_path / "x.safetensors")["d2t"].integers()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too short"),
        (b"1234567", "too short"),
        (stored({}, length=1 << 62), "truncated or no safetensors"),
        (stored(b"{"), "not valid JSON"),
        (stored(b"\xff\xff"), "not valid JSON"),
        (stored(b"[" * 200_000), "nested too deeply"),
        (stored(b'{"a": 1' + b"0" * 9000 + b"}"), "not valid JSON"),
        (stored(b"[]"), "not a JSON object"),
        (stored(b'{"a": {}, "a": {}}'), "a key occurs twice"),
        (stored({"a": 3}), "expected a table"),
        (stored({"a": {"shape": [2]}}), "key dtype is missing"),
        (
            stored({"a": about("F8_E4M3")}, bytes(8)),
            "stored as 'F8_E4M3', which is not implemented",
        ),
        (stored({"a": about("F64")}, bytes(16)), "'F64', which is not implemented"),
        (stored({"a": about(shape=[-2])}, bytes(8)), "expected a list of integers from 0"),
        (stored({"a": about(shape=[True])}, bytes(8)), "expected a list of integers from 0"),
        (stored({"a": about(shape=[1 << 40, 1 << 40])}, bytes(8)), "has 8 bytes"),
        (stored({"a": about(shape=[3])}, bytes(8)), "has 8 bytes"),
        (stored({"a": about(offsets=[0, 1 << 50])}, bytes(8)), "ends at byte"),
        (stored({"a": about(offsets=[8, 0])}, bytes(8)), "starts at 8"),
        (stored({"a": about(offsets=[0])}, bytes(8)), "not two numbers"),
        (stored({"a": about(offsets=[4, 12])}, bytes(12)), "starts at 4, expected 0"),
        (stored({"a": about(), "b": about()}, bytes(8)), "starts at 0, expected 8"),
        (stored({"a": about()}, bytes(9)), "1 bytes belong to no tensor"),
        (stored({"a\nb": about()}, bytes(8)), "not printable"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_safetensors(path)
    assert "bad.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_random_bytes_do_no_harm(tmp_path: Path) -> None:
    save_file({"a": torch.ones(3, 4), "b": torch.ones(2)}, tmp_path / "whole.safetensors")
    whole = (tmp_path / "whole.safetensors").read_bytes()
    path = tmp_path / "x.safetensors"
    rng = np.random.default_rng(3)
    refused = 0
    for number in range(400):
        content = bytearray(whole)
        content[int(rng.integers(len(whole) // 2))] = int(rng.integers(256))
        path.write_bytes(content[: int(rng.integers(len(whole)))] if number % 4 == 0 else content)
        try:
            for raw in read_safetensors(path).values():
                raw.unpack()
        except CheckpointError:
            refused += 1
    assert refused > 200


def test_one_file_and_the_files_beside_it(tmp_path: Path) -> None:
    folder(tmp_path)
    save_file({"norm.weight": torch.ones(2)}, tmp_path / "model.safetensors")
    save_file({"other.weight": torch.ones(2)}, tmp_path / "other.safetensors")
    checkpoint = open_checkpoint(tmp_path, {})
    assert isinstance(checkpoint, SafetensorsFolder)
    assert checkpoint.container == "safetensors"
    assert checkpoint.architecture == "LlamaForCausalLM"
    assert list(checkpoint.tensors) == ["norm.weight"]
    assert checkpoint.tokenizer_files == {}
    (tmp_path / "tokenizer.json").write_text("{}")
    assert checkpoint.tokenizer_files == {"tokenizer.json": tmp_path / "tokenizer.json"}


def shards(tmp_path: Path, weight_map: object) -> Path:
    folder(tmp_path)
    save_file({"a": torch.ones(2)}, tmp_path / "model-1.safetensors")
    save_file({"b": torch.zeros(2), "c": torch.ones(1)}, tmp_path / "model-2.safetensors")
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": weight_map})
    return tmp_path


def test_shards(tmp_path: Path) -> None:
    names = {
        "a": "model-1.safetensors",
        "b": "model-2.safetensors",
        "c": "model-2.safetensors",
    }
    checkpoint = SafetensorsFolder(shards(tmp_path, names))
    assert checkpoint.tensors["b"].unpack().tolist() == [0, 0]
    assert sorted(checkpoint.tensors) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": "model-3.safetensors"}, r"shard model-3\.safetensors is missing"),
        ({"a": "../model-1.safetensors"}, "no plain name"),
        ({"a": "/etc/model-1.safetensors"}, "no plain name"),
        ({"a": "..\\model-1.safetensors"}, "no plain name"),
        ({"a": "config.json"}, "no plain name"),
        ({"a": "x\n.safetensors"}, "no plain name"),
        ({"a": 3}, "expected a text"),
        ({"a": "model-1.safetensors", "z": "model-1.safetensors"}, "tensor z is not in model-1"),
        ({"a": "model-1.safetensors", "b": "model-2.safetensors"}, "tensor c of model-2"),
        ({"a": "model-2.safetensors"}, "tensor b of model-2"),
        ([], "weight_map is \\[\\], expected"),
        (None, "weight_map is missing"),
    ],
)
def test_bad_indexes(tmp_path: Path, weight_map: object, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        SafetensorsFolder(shards(tmp_path, weight_map))


def test_folder_without_weights_or_class(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has neither"):
        SafetensorsFolder(folder(tmp_path))
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    folder(tmp_path, {"architectures": []})
    with pytest.raises(CheckpointError, match="architectures is empty"):
        _ = SafetensorsFolder(tmp_path).architecture
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match="nested too deeply"):
        SafetensorsFolder(tmp_path)


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        ({"eos_token_id": 2}, None, {"eos_token_id": [2]}),
        ({"eos_token_id": 1}, {"eos_token_id": [1, 5]}, {"eos_token_id": [1, 5]}),
        ({"eos_token_id": 7}, {"eos_token_id": 5}, {"eos_token_id": [5, 7]}),
        ({"eos_token_id": None}, {"temperature": 0.7}, {"eos_token_id": [], "temperature": 0.7}),
        ({"bos_token_id": 3}, {"bos_token_id": 4}, {"eos_token_id": [], "bos_token_id": 4}),
    ],
)
def test_stops_are_the_union(
    tmp_path: Path, config: object, generation: object, expected: dict[str, object]
) -> None:
    folder(tmp_path, config)
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    if generation is not None:
        write_json(tmp_path / "generation_config.json", generation)
    assert SafetensorsFolder(tmp_path).generation == expected


def test_a_stop_that_is_no_id(tmp_path: Path) -> None:
    folder(tmp_path, {"eos_token_id": [1, "x"]})
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"eos_token_id is .* expected a list of integers"):
        SafetensorsFolder(tmp_path)
