"""A selector whose tables are factors of the target's embedding, and its GGUF file."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from draftwalk.convert import Options, convert
from draftwalk.convert.factored import write_factored
from draftwalk.convert.types import MIXES
from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.dflash2 import DFlash2
from draftwalk.draft.dialect import FINGERPRINT_KEY
from draftwalk.draft.export import embedding_fingerprint
from draftwalk.draft.load import build_drafter, read_config
from draftwalk.errors import CheckpointError, PairingError
from draftwalk.models import open_model
from draftwalk.ops.torch import DenseMatrix, TorchOperations
from draftwalk.quant.bf16 import FORMATS as BF16
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.target import SharedTables
from draftwalk.verify.noise import Noise
from draftwalk.weights import Checkpoint, pack_tensor
from support.models import CPU, MadeCheckpoint, drafter_checkpoint

V, WIDTH, RANK, DEPTH, ROWS = 160, 64, 6, 4, 7
SIDES = ("predecessor", "successor")


def eighths(seed: int, *shape: int) -> NDArray[np.float32]:
    """Numbers whose products and sums are exact in single precision."""
    return (np.random.default_rng(seed).integers(-12, 13, shape) / 8).astype(np.float32)


EMBEDDING = eighths(1, V, WIDTH)
FACTORS = {side: eighths(n, RANK, WIDTH) / 4 for n, side in enumerate(SIDES)}
PACKED = {
    side: pack_tensor(f"candidate_selector.{side}_factor", factor, F32)
    for side, factor in FACTORS.items()
}


def whole() -> MadeCheckpoint:
    """A drafter whose tables are stored whole, and are products of factors all the same."""
    made = drafter_checkpoint(V, WIDTH, (1, 3), selector=True, causal=False, mlp=64)
    tensors = dict(made.tensors)
    for side in SIDES:
        name = f"candidate_selector.{side}_codebook"
        tensors[name] = pack_tensor(name, EMBEDDING @ FACTORS[side].T, F32)
    own = {
        **made.config["dflash_config"],  # type: ignore[dict-item]
        "output_multiplier": 0.5,
        "input_embedding_scale": 2.0,
        "final_logit_softcapping": 16.0,
    }
    return replace(made, tensors=tensors, config={**made.config, "dflash_config": own})


def factored() -> MadeCheckpoint:
    made = whole()
    tensors = {k: v for k, v in made.tensors.items() if not k.endswith("_codebook")}
    return replace(made, tensors={**tensors, **{raw.name: raw for raw in PACKED.values()}})


def folder(path: Path) -> Checkpoint:
    """The whole one as a Hugging Face folder."""
    made = whole()
    path.mkdir()
    config = {**made.config, "architectures": ["DFlash2DraftModel"], "model_type": "qwen3"}
    (path / "config.json").write_text(json.dumps(config))
    save_file(
        {name: raw.unpack().copy() for name, raw in made.tensors.items()},
        path / "model.safetensors",
    )
    return open_model(path)


def built(checkpoint: Checkpoint, dtype: torch.dtype = torch.float64) -> DFlash2:
    ops = TorchOperations(CPU, dtype)
    table = DenseMatrix(torch.from_numpy(EMBEDDING).to(dtype))
    drafter = build_drafter(checkpoint, ops, SharedTables(table, table), DEPTH, 100)
    assert isinstance(drafter, DFlash2)
    return drafter


def drafts(checkpoint: Checkpoint, dtype: torch.dtype = torch.float64) -> list[Draft]:
    drafter = built(checkpoint, dtype)
    drafter.state.open(0)
    draw = torch.Generator().manual_seed(2)
    features = torch.randn(ROWS, 2 * WIDTH, generator=draw, dtype=torch.float64).to(dtype)
    rows = Rows.lay_out([Rowset(0, [0] * ROWS, 0)], CPU)
    drafter.observe(rows, features, {0: ROWS})
    found = []
    for sampling in (Sampling(), Sampling(temperature=0.8), Sampling(0.8, rule="rejection")):
        for anchor in (5, 77):
            request = DraftRequest(0, [0] * ROWS + [anchor], 5, sampling, Noise(6))
            found += drafter.propose([request])
    return found


def assert_equal(left: list[Draft], right: list[Draft]) -> None:
    for a, b in zip(left, right, strict=True):
        assert a.tokens == b.tokens
        assert a.confidence == b.confidence
        for p, q in zip(a.q, b.q, strict=True):
            assert torch.equal(p.ids, q.ids)
            assert torch.equal(p.p, q.p)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_factors_are_their_tables(dtype: torch.dtype) -> None:
    assert_equal(drafts(factored(), dtype), drafts(whole(), dtype))


def test_a_gguf_file_of_factors_is_the_folder(tmp_path: Path) -> None:
    checkpoint = folder(tmp_path / "drafter")
    path = tmp_path / "drafter.gguf"
    write_factored(path, checkpoint, MIXES["F32"], PACKED, "0" * 64)
    packed = open_model(path)
    mine, theirs = read_config(packed), read_config(checkpoint)
    assert torch.equal(mine.rope, theirs.rope)
    assert str(mine) == str(theirs)
    assert_equal(drafts(packed), drafts(checkpoint))
    assert not [name for name in packed.tensors if name.endswith("_codebook")]
    assert {name for name in packed.tensors if name.endswith("_factor")} == {
        raw.name for raw in PACKED.values()
    }


def test_quantised_matrices_change_little(tmp_path: Path) -> None:
    path = tmp_path / "drafter.gguf"
    write_factored(path, whole(), MIXES["Q8_0"], PACKED, "0" * 64)
    packed = open_model(path)
    formats = {name: raw.format.NAME for name, raw in packed.tensors.items()}
    for name, format_ in formats.items():
        vector = name.endswith(("norm.weight", "base_kernel", "_factor"))
        assert format_ == ("F32" if vector else "Q8_0"), name
    for name, raw in whole().tensors.items():
        if name in packed.tensors:
            error = np.abs(packed.tensors[name].unpack() - raw.unpack()).max()
            # Half a step of 1/127, and the rounding of the step itself to half precision.
            assert error <= np.abs(raw.unpack()).max() / 127 * 0.57
    same = [a.tokens == b.tokens for a, b in zip(drafts(packed), drafts(whole()), strict=True)]
    assert sum(same) >= len(same) // 2


def test_tables_of_nothing_change_the_drafts() -> None:
    made = factored()
    expected = [draft.tokens for draft in drafts(made)]
    for side in SIDES:
        nothing = pack_tensor(PACKED[side].name, np.zeros((RANK, WIDTH), np.float32), F32)
        zeroed = replace(made, tensors={**made.tensors, nothing.name: nothing})
        assert [draft.tokens for draft in drafts(zeroed)] != expected
        name = f"candidate_selector.{side}_codebook"
        nothing = pack_tensor(name, np.zeros((V, RANK), np.float32), F32)
        zeroed = replace(whole(), tensors={**whole().tensors, name: nothing})
        assert [draft.tokens for draft in drafts(zeroed)] != expected


def test_the_factors_belong_to_the_target_s_embedding_and_not_to_the_drafter_s_own() -> None:
    made = factored()
    own = pack_tensor("embed_tokens.weight", EMBEDDING * 2, F32)
    both = replace(made, tensors={**made.tensors, own.name: own})
    table = built(both).tables[0]
    assert isinstance(table, DenseMatrix)
    assert torch.equal(
        table.weight, torch.from_numpy(EMBEDDING @ FACTORS["predecessor"].T).double()
    )


def test_a_table_may_be_whole_on_one_side_only() -> None:
    made = factored()
    name = "candidate_selector.successor_codebook"
    tensors = {k: v for k, v in made.tensors.items() if not k.endswith("successor_factor")}
    mixed = replace(made, tensors={**tensors, name: whole().tensors[name]})
    assert_equal(drafts(mixed), drafts(whole()))


def test_a_table_stored_twice_is_refused() -> None:
    made = factored()
    name = "candidate_selector.successor_codebook"
    twice = replace(made, tensors={**made.tensors, name: whole().tensors[name]})
    with pytest.raises(CheckpointError, match="successor_codebook not used"):
        built(twice)


def test_rows_that_a_format_would_cross_stay_floats(tmp_path: Path) -> None:
    narrow = drafter_checkpoint(V, WIDTH, (1, 3), selector=True, mlp=40)
    path = tmp_path / "drafter.gguf"
    write_factored(path, narrow, MIXES["Q8_0"], PACKED, "0" * 64)
    formats = {name: raw.format.NAME for name, raw in open_model(path).tensors.items()}
    assert formats["layers.0.mlp.down_proj.weight"] == "F16"
    assert formats["layers.0.mlp.up_proj.weight"] == "Q8_0"


@pytest.mark.parametrize(
    "change",
    [
        {"layer_types": ["sliding_attention", "full_attention"]},
        {"is_neox_style": False},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
    ],
)
def test_windows_and_ropes_are_written(change: dict[str, object], tmp_path: Path) -> None:
    made = whole()
    other = replace(made, config={**made.config, **change})
    path = tmp_path / "drafter.gguf"
    write_factored(path, other, MIXES["F32"], PACKED, "0" * 64)
    expected = drafts(other)
    assert_equal(drafts(open_model(path)), expected)
    assert [draft.tokens for draft in expected] != [draft.tokens for draft in drafts(made)]


def target(embedding: NDArray[np.float32] = EMBEDDING) -> MadeCheckpoint:
    """As much of a target as a drafter's file needs."""
    table = pack_tensor("model.embed_tokens.weight", embedding, F32)
    return MadeCheckpoint({"num_hidden_layers": DEPTH}, {table.name: table}, Path("some-target"))


def test_tables_made_by_convert_draft_as_those_made_at_load(tmp_path: Path) -> None:
    told = embedding_fingerprint(target().tensors["model.embed_tokens.weight"])
    write_factored(tmp_path / "a.gguf", whole(), MIXES["F32"], PACKED, told)
    packed = open_model(tmp_path / "a.gguf")
    for to, name in (("gguf", "b.gguf"), ("hf", "b"), ("speculators", "c")):
        options = Options(target=target(), tokenizer=False)
        convert(packed, tmp_path / name, to, options)  # type: ignore[arg-type]
        made = open_model(tmp_path / name)
        assert not [one for one in made.tensors if one.endswith("_factor")]
        assert_equal(drafts(made), drafts(packed))


def test_tables_are_rounded_to_the_type_asked_for_and_to_no_other(tmp_path: Path) -> None:
    """Not to the type of their factors first."""
    told = embedding_fingerprint(target().tensors["model.embed_tokens.weight"])
    halves = {side: pack_tensor(raw.name, raw.unpack(), BF16) for side, raw in PACKED.items()}
    write_factored(tmp_path / "a.gguf", whole(), MIXES["F32"], halves, told)
    packed = open_model(tmp_path / "a.gguf")
    exact = EMBEDDING @ halves["predecessor"].unpack().T
    found = {}
    for name in ("", "F32", "BF16"):
        outtype = MIXES.get(name)
        options = Options(target=target(), tokenizer=False, outtype=outtype, force=True)
        convert(packed, tmp_path / "b.gguf", "gguf", options)
        table = open_model(tmp_path / "b.gguf").tensors["candidate_selector.predecessor_codebook"]
        assert (name or "BF16") == table.format.NAME
        found[name] = table.unpack()
    assert np.array_equal(found["F32"], exact)
    assert not np.array_equal(found["BF16"], exact)
    assert np.array_equal(found[""], found["BF16"])


def test_tables_are_not_made_of_another_embedding(tmp_path: Path) -> None:
    write_factored(tmp_path / "a.gguf", whole(), MIXES["F32"], PACKED, "0" * 64)
    packed = open_model(tmp_path / "a.gguf")
    with pytest.raises(CheckpointError, match="give the target: --target"):
        convert(packed, tmp_path / "b.gguf", "gguf", Options(tokenizer=False))
    with pytest.raises(PairingError, match="factors of another embedding"):
        convert(packed, tmp_path / "b.gguf", "gguf", Options(target=target(), tokenizer=False))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.gguf"]


def test_quantising_keeps_factors_and_their_fingerprint(tmp_path: Path) -> None:
    write_factored(tmp_path / "a.gguf", whole(), MIXES["F32"], PACKED, "7" * 64)
    options = Options(outtype=MIXES["Q8_0"], whole_tables=False)
    convert(open_model(tmp_path / "a.gguf"), tmp_path / "b.gguf", "gguf", options)
    packed = open_model(tmp_path / "b.gguf")
    assert packed.tensors["candidate_selector.predecessor_factor"].format.NAME == "F32"
    assert packed.tensors["fc.weight"].format.NAME == "Q8_0"
    assert packed.metadata[FINGERPRINT_KEY] == "7" * 64  # type: ignore[union-attr]
