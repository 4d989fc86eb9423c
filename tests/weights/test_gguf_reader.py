from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftwalk.errors import CheckpointError
from draftwalk.quant import formats_by_name
from draftwalk.weights import GgufFile, RawTensor, Typed, write_gguf
from draftwalk.weights.gguf_values import Value, ValueType
from support.gguf_bytes import FLOAT32, INT32, STRING, UINT32, entry, file, scalar, values
from support.hostile_gguf import REFUSED
from support.toy_checkpoint import METADATA, tensors, write_toy


def read(path: Path, content: bytes) -> GgufFile:
    path.write_bytes(content)
    return GgufFile(path)


@pytest.mark.parametrize("version", [2, 3])
def test_writes_and_reads_back(tmp_path: Path, version: int) -> None:
    path = tmp_path / "x.gguf"
    write_gguf(path, METADATA, tensors(), version)
    back = GgufFile(path)
    assert back.version == version
    assert back.architecture == "toy"
    expected = {k: v.value if isinstance(v, Typed) else v for k, v in METADATA.items()}
    assert back.metadata == expected
    assert list(back.tensors) == [raw.name for raw in tensors()]
    for raw in tensors():
        ours = back.tensors[raw.name]
        assert (ours.shape, ours.format) == (raw.shape, raw.format)
        assert np.array_equal(ours.data, raw.data)


def test_float32_settings_keep_their_decimals(tmp_path: Path) -> None:
    """1e-5 stored as float32 is not 9.999999747378752e-06 to a model in float64."""
    back = GgufFile(write_toy(tmp_path / "x.gguf"))
    assert back.metadata["toy.attention.layer_norm_rms_epsilon"] == 1e-5


SCALAR_KINDS = {
    ValueType.UINT8: st.integers(0, 2**8 - 1),
    ValueType.INT8: st.integers(-(2**7), 2**7 - 1),
    ValueType.UINT16: st.integers(0, 2**16 - 1),
    ValueType.INT16: st.integers(-(2**15), 2**15 - 1),
    ValueType.UINT32: st.integers(0, 2**32 - 1),
    ValueType.INT32: st.integers(-(2**31), 2**31 - 1),
    ValueType.UINT64: st.integers(0, 2**64 - 1),
    ValueType.INT64: st.integers(-(2**63), 2**63 - 1),
    ValueType.FLOAT64: st.floats(allow_nan=False),
    ValueType.BOOL: st.booleans(),
    ValueType.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
}
TYPED = st.sampled_from(list(SCALAR_KINDS)).flatmap(
    lambda kind: st.one_of(SCALAR_KINDS[kind], st.lists(SCALAR_KINDS[kind], max_size=5)).map(
        lambda value: Typed(kind, value)
    )  # type: ignore[arg-type]
)


@settings(max_examples=25, deadline=None)
@given(
    metadata=st.dictionaries(st.from_regex(r"[a-z.]{1,12}", fullmatch=True), TYPED, max_size=6),
    shapes=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), max_size=4),
    names=st.permutations(["F32", "F16", "Q4_K", "Q5_0", "Q6_K"]),
    alignment=st.sampled_from([8, 32, 256]),
)
def test_any_metadata_and_shapes_survive(
    tmp_path_factory: pytest.TempPathFactory,
    metadata: dict[str, Value | Typed],
    shapes: list[list[int]],
    names: list[str],
    alignment: int,
) -> None:
    path = tmp_path_factory.mktemp("gguf") / "x.gguf"
    raws = []
    for number, (sizes, name) in enumerate(zip(shapes, names, strict=False)):
        format_ = formats_by_name()[name]
        blocks = int(np.prod(sizes))
        data = np.arange(blocks * format_.BYTES, dtype=np.uint64).astype(np.uint8)
        shape = (*sizes[:-1], sizes[-1] * format_.BLOCK)
        raws.append(RawTensor(f"t{number}", shape, format_, data))
    write_gguf(path, {**metadata, "general.alignment": alignment}, raws)
    back = GgufFile(path)
    for name, typed in metadata.items():
        assert isinstance(typed, Typed)
        assert back.metadata[name] == typed.value
    for raw in raws:
        assert back.tensors[raw.name].shape == raw.shape
        assert np.array_equal(back.tensors[raw.name].data, raw.data)


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_in_one_line_and_at_once(tmp_path: Path, case: str) -> None:
    content, expected = REFUSED[case]
    path = tmp_path / "bad.gguf"
    start = time.process_time()
    with pytest.raises(CheckpointError) as caught:
        read(path, content)
    assert time.process_time() - start < 1
    message = str(caught.value)
    assert expected in message
    assert "bad.gguf" in message
    assert "\n" not in message
    assert len(message) < 400


def test_a_folder_or_a_missing_file_is_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.gguf"):
        with pytest.raises(CheckpointError, match="cannot be read"):
            GgufFile(path)


def test_tensor_data_may_lack_the_last_padding(tmp_path: Path) -> None:
    back = read(tmp_path / "x.gguf", file([], [entry("t", [3], 0, 0)], bytes(12)))
    assert back.tensors["t"].shape == (3,)


def test_own_alignment_moves_the_data(tmp_path: Path) -> None:
    keys = [scalar("general.alignment", UINT32, 256)]
    data = np.arange(8, dtype="<f4").tobytes()
    back = read(tmp_path / "x.gguf", file(keys, [entry("t", [8], 0, 0)], data, alignment=256))
    assert np.array_equal(back.tensors["t"].unpack(), np.arange(8, dtype=np.float32))


def test_file_without_architecture(tmp_path: Path) -> None:
    for keys in ([], [scalar("general.architecture", INT32, 1)]):
        with pytest.raises(CheckpointError, match=r"general\.architecture is missing"):
            _ = read(tmp_path / "x.gguf", file(keys)).architecture


def test_a_large_vocabulary_opens_fast(tmp_path: Path) -> None:
    tokens = [f"token-{number}" for number in range(262_144)]
    keys = [
        values("tokenizer.ggml.tokens", STRING, tokens),
        values("tokenizer.ggml.scores", FLOAT32, [0.5] * len(tokens)),
    ]
    path = tmp_path / "x.gguf"
    path.write_bytes(file(keys))
    start = time.process_time()
    back = GgufFile(path)
    assert time.process_time() - start < 1.5  # 0.2 s on an idle core
    assert back.metadata["tokenizer.ggml.tokens"] == tokens


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = write_toy(tmp_path / "x.gguf")
    before = path.read_bytes()
    unwritable = RawTensor("t", (1,), formats_by_name()["BOOL"], np.ones(1, dtype=np.uint8))
    with pytest.raises(AssertionError, match="no type BOOL"):
        write_gguf(path, METADATA, [unwritable])
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.gguf"]
    assert path.read_bytes() == before
