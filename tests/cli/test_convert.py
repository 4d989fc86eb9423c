"""`draftwalk convert` and `draftwalk quantize`, as a user calls them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from draftwalk.models import open_model
from draftwalk.weights import GgufFile
from support.command_line import call, spawn


def test_a_folder_there_and_back(files: Path, tmp_path: Path) -> None:
    file, back = tmp_path / "d.gguf", tmp_path / "back"
    outcome = call("convert", files / "d2", file, "--target", files / "t.gguf")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"{file}: DFlash2 drafter, ")
    assert len(GgufFile(file).metadata["tokenizer.ggml.tokens"]) > 90  # type: ignore[arg-type]
    assert call("convert", file, back, "--to", "hf").code == 0
    assert (back / "config.json").read_text() == (files / "d2" / "config.json").read_text()
    assert call("info", files / "t.gguf", file).code == 0


def test_a_converted_drafter_drafts_the_same(files: Path, tmp_path: Path) -> None:
    call("convert", files / "d2", tmp_path / "d.gguf", "--target", files / "t.gguf")
    call(
        "convert", files / "d2", tmp_path / "s", "--to", "speculators", "--target", files / "t.gguf"
    )
    found = []
    for drafter in (files / "d2", tmp_path / "d.gguf", tmp_path / "s"):
        arguments = ("-m", files / "t.gguf", "-md", drafter, "Hello", "-n", "24", "--json", "--raw")
        outcome = call("run", *arguments, "--backend", "torch", "--draft-max", "5")
        assert outcome.code == 0, outcome.err
        steps: list[Any] = outcome.json["steps"]  # type: ignore[assignment]
        found.append([(step["draft"], step["tokens"]) for step in steps])
    assert found[0] == found[1] == found[2]


def test_what_to_write_is_said_or_seen(files: Path, tmp_path: Path) -> None:
    outcome = call("convert", files / "d2", tmp_path / "x")
    assert outcome.code == 2
    assert "--to hf" in outcome.err
    outcome = call("convert", files / "d2", tmp_path / "x", "--to", "hf", "--outtype", "q4_0")
    assert outcome.code == 1
    assert outcome.err.startswith("error: a folder of safetensors cannot hold Q4_0")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give the target: --target"),
        (("--outtype", "q3_x"), "there is no type 'q3_x'"),
        (("--tensor", "norm"), "--tensor 'norm' is not PATTERN=TYPE"),
        (("--target", "wide"), "error: "),
    ],
)
def test_faults_are_one_line(
    arguments: tuple[str, ...], message: str, files: Path, tmp_path: Path
) -> None:
    given = [str(files / one) if one == "wide" else one for one in arguments]
    outcome = call("convert", files / "d2", tmp_path / "x.gguf", *given)
    assert outcome.code == 1
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_an_existing_file_is_kept(files: Path, tmp_path: Path) -> None:
    place = tmp_path / "x.gguf"
    place.write_text("precious")
    outcome = call("convert", files / "d2", place, "--no-tokenizer")
    assert (outcome.code, place.read_text()) == (1, "precious")
    assert "--force" in outcome.err
    assert call("convert", files / "d2", place, "--no-tokenizer", "--force").code == 0
    assert open_model(place).container == "gguf"


def test_quantising_tells_its_fallbacks(files: Path, tmp_path: Path) -> None:
    arguments = ("--no-tokenizer", "--tensor", r"blk\.0\.attn_k=q8_0")
    outcome = call("quantize", files / "d2", tmp_path / "x.gguf", "Q4_K_M", *arguments)
    assert outcome.code == 0
    *lines, written = outcome.out.splitlines()
    tensors = GgufFile(tmp_path / "x.gguf").tensors
    assert lines[0] == "16 tensors are F16 in place of Q4_K: 256 does not divide rows of 6, 40, 48"
    assert "1 tensor is F16 in place of Q8_0: 32 does not divide rows of 48" in lines
    assert "--json names" in outcome.err
    assert tensors["blk.0.attn_norm.weight"].format.NAME == "F32"
    halves = sum(one.format.NAME == "F16" for one in tensors.values())
    assert f"({halves} F16" in written


def test_as_json_every_fallback_is_named(files: Path, tmp_path: Path) -> None:
    arguments = ("Q4_K_M", "--no-tokenizer", "--tensor", r"blk\.0\.attn_k=q8_0", "--json")
    outcome = call("quantize", files / "d2", tmp_path / "x.gguf", *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    told = outcome.json
    tensors = GgufFile(tmp_path / "x.gguf").tensors
    found = {one["tensor"]: one for one in told.pop("fallbacks")}  # type: ignore[attr-defined]
    assert found["blk.0.attn_k.weight"] == {
        "tensor": "blk.0.attn_k.weight",
        "width": 48,
        "wanted": "Q8_0",
        "stored": "F16",
    }
    for name, one in found.items():
        assert one["stored"] == tensors[name].format.NAME
    assert told == {
        "path": str(tmp_path / "x.gguf"),
        "what": "DFlash2 drafter",
        "container": "gguf",
        "bytes": sum(raw.bytes for raw in tensors.values()),
        "formats": dict(Counter(raw.format.NAME for raw in tensors.values()).most_common()),
        "notes": [],
    }


@pytest.mark.parametrize("verb", ["convert", "quantize", "info"])
def test_help_says_where_models_may_come_from(verb: str) -> None:
    assert "owner/name[:quant] of the Hugging Face hub" in " ".join(
        call(verb, "--help").out.split()
    )


def test_a_target_s_tokenizer_is_not_asked_for_twice(files: Path, tmp_path: Path) -> None:
    """A GGUF drafter has it already."""
    call("convert", files / "d2", tmp_path / "a.gguf", "--target", files / "t.gguf")
    assert call("quantize", tmp_path / "a.gguf", tmp_path / "b.gguf", "f16").code == 0
    before, after = (GgufFile(tmp_path / name).metadata for name in ("a.gguf", "b.gguf"))
    for key in before:
        if key.startswith(("tokenizer.", "draftwalk.", "dflash.")):
            assert after[key] == before[key], key
    assert after["general.file_type"] == 1


def test_in_a_process_of_its_own(files: Path, tmp_path: Path) -> None:
    arguments = ("--to", "speculators", "--target", files / "t.gguf")
    outcome = spawn("convert", files / "d2", tmp_path / "s", *arguments)
    assert outcome.code == 0, outcome.err
    config = json.loads((tmp_path / "s" / "config.json").read_text())
    assert config["speculators_model_type"] == "dflash2"
    assert spawn("convert", tmp_path / "missing", tmp_path / "x.gguf").code == 1
