"""Targets from Hugging Face folders to GGUF: the same model comes out, for us and for others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from draftwalk.convert import Options
from draftwalk.convert import convert as convert_model
from draftwalk.convert.types import MIXES, Mix
from draftwalk.errors import CheckpointError
from draftwalk.models import open_model
from draftwalk.weights import GgufCheckpoint, GgufFile
from support.hf_targets import CONFIGS, PROMPT, write_hf_target
from support.passes import logits_of

FIXTURES = Path(__file__).parent.parent / "fixtures"
NO_TOKENS = {"tokenizer.ggml.model": "none"}
# A GGUF file's rope factors and shifted norms are rounded to F32, and so is one of its own thetas.
ROUNDING = 2e-5


def convert(folder: Path, into: Path, mix: Mix | None) -> Path:
    convert_model(open_model(folder), into, "gguf", Options(mix, tokenizer=False, force=True))
    return into


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CONFIGS)
def test_floats_give_the_same_logits(name: str, stored: torch.dtype, tmp_path: Path) -> None:
    folder = write_hf_target(tmp_path / name, name, stored)
    own = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}[stored]
    before = logits_of(folder, PROMPT)
    for mix in {"F32", own}:
        after = logits_of(convert(folder, tmp_path / f"{mix}.gguf", MIXES[mix]), PROMPT)
        torch.testing.assert_close(after, before, rtol=0, atol=ROUNDING * float(before.abs().max()))


@pytest.mark.parametrize("name", [n for n in CONFIGS if n not in ("gemma3", "llama-rope3")])
def test_nothing_is_rounded_where_nothing_is_computed(name: str, tmp_path: Path) -> None:
    folder = write_hf_target(tmp_path / name, name, torch.bfloat16)
    path = convert(folder, tmp_path / "same.gguf", None)
    before, after = (logits_of(one, PROMPT, torch.float64) for one in (folder, path))
    assert torch.equal(before, after)
    matrices = {raw.format.NAME for raw in GgufFile(path).tensors.values() if len(raw.shape) == 2}
    assert matrices == {"BF16"}


@pytest.mark.parametrize("name", CONFIGS)
def test_packed_types_have_their_errors_and_no_others(name: str, tmp_path: Path) -> None:
    """The more bits, the nearer; and a file's rows are where they belong."""
    folder = write_hf_target(tmp_path / name, name, torch.float32)
    before = logits_of(folder, PROMPT).double()
    errors = {}
    for mix in ("Q8_0", "Q4_1", "Q4_0"):
        path = convert(folder, tmp_path / f"{mix}.gguf", MIXES[mix])
        difference = logits_of(path, PROMPT).double() - before
        errors[mix] = float(difference.norm() / before.norm())
        types = {raw.format.NAME for raw in GgufFile(path).tensors.values()}
        assert mix in types
        assert types <= {mix, "F32", "Q8_0", "Q6_K"}
    assert errors["Q8_0"] < 0.05 < errors["Q4_0"] < 0.9, errors
    assert errors["Q8_0"] < errors["Q4_1"] < 0.9, errors


@pytest.mark.parametrize(
    "name", sorted(p.name for p in (FIXTURES / "targets").iterdir() if (p / "model.gguf").exists())
)
def test_files_equal_those_made_by_llama_cpp_s_rules(name: str, tmp_path: Path) -> None:
    """The recorded files are made by another writer, and llama.cpp has read them."""
    folder = FIXTURES / "targets" / name
    ours = GgufFile(convert(folder, tmp_path / "ours.gguf", MIXES["F32"]))
    theirs = GgufFile(folder / "model.gguf")
    assert set(ours.tensors) == set(theirs.tensors)
    for key, raw in theirs.tensors.items():
        assert raw.shape == ours.tensors[key].shape
        assert (raw.unpack() == ours.tensors[key].unpack()).all() or key == "rope_freqs.weight", key
    for key, value in theirs.metadata.items():
        if not key.startswith("general."):
            assert ours.metadata[key] == value, key


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_pre_attn_scalar": 40}, "cannot say its attention_scale"),
        ({"sliding_window_pattern": 3}, "cannot say its layers"),
        ({"attn_logit_softcapping": 5.0}, "cannot say its attention_softcap"),
    ],
)
def test_what_a_file_cannot_say_is_refused(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    folder = write_hf_target(tmp_path / "gemma3", "gemma3", torch.float32, **changes)
    with pytest.raises(CheckpointError, match=message) as caught:
        convert(folder, tmp_path / "refused.gguf", MIXES["F32"])
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["gemma3"], "nothing is left"


def test_rope_scaling_that_only_llama_has_in_gguf_is_refused(tmp_path: Path) -> None:
    rope = CONFIGS["llama-rope3"]["rope_scaling"]
    folder = write_hf_target(tmp_path / "qwen3", "qwen3", torch.float32, rope_scaling=rope)
    with pytest.raises(CheckpointError, match="cannot say its ropes"):
        convert(folder, tmp_path / "refused.gguf", MIXES["F32"])


def test_incomplete_folders_are_refused(tmp_path: Path) -> None:
    folder = write_hf_target(tmp_path / "qwen3", "qwen3", torch.float32)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight is missing"):
        convert(folder, tmp_path / "refused.gguf", MIXES["F32"])
    tensors["model.visual.weight"] = torch.zeros(2, 2)
    same = tensors["model.layers.0.mlp.up_proj.weight"]
    tensors["model.layers.1.mlp.up_proj.weight"] = same.clone()
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.visual\.weight not used"):
        convert(folder, tmp_path / "refused.gguf", MIXES["F32"])
    del tensors["model.visual.weight"], tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight is missing"):
        convert(folder, tmp_path / "refused.gguf", MIXES["F32"])


@pytest.mark.parametrize("outtype", ["F32", "F16", "BF16", "Q8_0"])
def test_weights_that_are_not_finite_are_refused(outtype: str, tmp_path: Path) -> None:
    """Also where they are only copied."""
    folder = write_hf_target(tmp_path / "qwen3", "qwen3", torch.float32)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][2, 3] = torch.inf
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=r"blk\.1\.ffn_up\.weight has values that are not fin"
    ):
        convert(folder, tmp_path / "refused.gguf", MIXES[outtype])
    assert [path.name for path in tmp_path.iterdir()] == ["qwen3"]


def test_a_gguf_file_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is a GGUF file already"):
        convert(FIXTURES / "targets" / "llama" / "model.gguf", tmp_path / "x.gguf", MIXES["F32"])


def test_recommended_sampling_goes_along(tmp_path: Path) -> None:
    folder = write_hf_target(tmp_path / "llama", "llama", torch.float32)
    generation = {"do_sample": True, "top_k": 40, "top_p": 0.9, "eos_token_id": [2, 5]}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    written = open_model(convert(folder, tmp_path / "s.gguf", None))
    assert isinstance(written, GgufCheckpoint)
    expected = {"do_sample": True, "temperature": 1.0, "top_k": 40, "top_p": 0.9}
    assert {key: written.generation[key] for key in expected} == expected
    (folder / "generation_config.json").write_text(json.dumps({**generation, "do_sample": False}))
    assert "temperature" not in open_model(convert(folder, tmp_path / "s.gguf", None)).generation


RECORDED = json.loads((FIXTURES / "target_conversions.json").read_text())


@pytest.mark.parametrize("name", CONFIGS)
def test_llama_cpp_chooses_the_same_tokens(name: str, tmp_path: Path) -> None:
    """Where llama.cpp's best token leads by more than its rounding, it is ours too."""
    folder = write_hf_target(tmp_path / name, name, torch.bfloat16)
    assert set(RECORDED[name]) == {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"}
    for mix, theirs in RECORDED[name].items():
        ours = logits_of(convert(folder, tmp_path / f"{mix}.gguf", MIXES[mix]), PROMPT)
        leads = zip(theirs["lead"], theirs["rounding"], strict=True)
        sure = [row for row, (lead, rounding) in enumerate(leads) if lead > rounding]
        assert len(sure) >= (38 if mix in ("F32", "F16") else 12)
        chosen = ours.argmax(dim=1).tolist()
        assert [chosen[row] for row in sure] == [theirs["argmax"][row] for row in sure], mix
