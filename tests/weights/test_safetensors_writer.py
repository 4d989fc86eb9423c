"""The safetensors writer, against our reader and the library's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from draftwalk.quant import formats_by_name
from draftwalk.weights import PlannedTensor, RawTensor, pack_tensor, write_safetensors
from draftwalk.weights.safetensors_file import read_safetensors
from support.drafter_folders import floats


def some() -> dict[str, RawTensor]:
    rng = np.random.default_rng(0)
    shapes = {"b.weight": (3, 5), "a": (7,), "scalar": (), "empty.weight": (0, 4), "ü": (1, 2, 3)}
    tensors = {}
    for number, (name, shape) in enumerate(shapes.items()):
        values = rng.standard_normal(shape).astype(np.float32)
        tensors[name] = pack_tensor(name, values, floats(("F32", "F16", "BF16")[number % 3]))
    mask = RawTensor("mask", (5,), formats_by_name()["BOOL"], np.array([0, 1, 1, 0, 1], np.uint8))
    ids = RawTensor("ids", (2,), formats_by_name()["I64"], np.arange(16, dtype=np.uint8))
    return {**tensors, "mask": mask, "ids": ids}


def test_reads_back(tmp_path: Path) -> None:
    tensors = some()
    write_safetensors(tmp_path / "x.safetensors", [*tensors.values()])
    back = read_safetensors(tmp_path / "x.safetensors")
    assert back.keys() == tensors.keys()
    for name, raw in tensors.items():
        assert back[name].shape == raw.shape
        assert back[name].format is raw.format
        assert np.array_equal(back[name].data, raw.data)


def test_the_library_reads_it(tmp_path: Path) -> None:
    tensors = {name: raw for name, raw in some().items() if raw.format.NAME != "BF16"}
    write_safetensors(tmp_path / "x.safetensors", [*tensors.values()])
    back = load_file(tmp_path / "x.safetensors")
    for name, raw in tensors.items():
        assert np.array_equal(back[name].reshape(-1).view(np.uint8), raw.data), name


def test_tensors_begin_at_multiples_of_their_width(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, [*some().values()])
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    assert start % 8 == 0
    for one in read_safetensors(path).values():
        if one.bytes:
            offset = raw.index(one.data.tobytes(), start)
            assert offset % one.format.BYTES == 0


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, [*some().values()])
    before = path.read_bytes()

    def fail() -> RawTensor:
        raise RuntimeError("in the middle")

    plan = PlannedTensor("a", (4,), floats("F32"), fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        write_safetensors(path, [*some().values(), plan.named("z")])
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_what_is_made_must_be_what_was_planned(tmp_path: Path) -> None:
    made = pack_tensor("a", np.zeros((4, 2), np.float32), floats("F32"))
    plan = PlannedTensor("a", (2, 4), floats("F32"), lambda: made)
    with pytest.raises(AssertionError, match="another shape"):
        write_safetensors(tmp_path / "x.safetensors", [plan])
    packed = pack_tensor("q", np.zeros((1, 32), np.float32), floats("Q8_0"))
    with pytest.raises(AssertionError, match="no such type"):
        write_safetensors(tmp_path / "x.safetensors", [packed])
