import json
from pathlib import Path
from shutil import copytree

import pytest
from torch import Tensor

from draftwalk.cli import back_end_facts
from draftwalk.draft.export import calibrated
from draftwalk.draft.pairing import packaged_drafters
from draftwalk.models import open_model
from draftwalk.ops import choice
from draftwalk.target.load import build_target
from draftwalk.weights import RawTensor
from draftwalk.window import Calibration
from support.command_line import call
from support.models import FIXTURES
from support.talking_model import VOCABULARY, write_target

needs_extension = pytest.mark.skipif(choice.extension_fault() is not None, reason="no extension")


def test_a_target_is_explained(files: Path) -> None:
    outcome = call("info", files / "t.gguf", "--json", "--backend", "torch")
    assert (outcome.code, outcome.err) == (0, "")
    (facts,) = outcome.json["files"]
    assert facts["role"] == "target"
    assert facts["architecture"] == "LlamaForCausalLM"
    assert (facts["vocabulary"], facts["width"], facts["layers"]) == (VOCABULARY, 48, 3)
    assert facts["attention"] == {"full": "in 3 layers"}
    assert facts["chat_template"] is True
    assert facts["stop_ids"] == {"97": "<|im_end|>", "98": "<|endoftext|>"}
    assert facts["stored"]["all"]["bytes_per_weight"] == 4.0
    values = facts["stored"]["all"]["values"]
    assert facts["memory"]["weights_bytes"] == 4 * values
    assert facts["memory"]["tokens"] == 512
    pages = 8  # of 64 places
    assert facts["memory"]["kv_bytes"] == 2 * 3 * pages * 64 * 2 * 12 * 4


def test_a_calibration_is_told(files: Path, tmp_path: Path) -> None:
    (facts,) = call("info", files / "d2", "--json").json["files"]
    assert facts["window"] == "not calibrated, learned while it runs"
    folder = copytree(files / "d2", tmp_path / "d2")
    config = json.loads((folder / "config.json").read_text())
    known = Calibration((0.5,) * 5, (0.75,) * 5, -0.25, 1234)
    (folder / "config.json").write_text(json.dumps(calibrated(config, known)))
    (facts,) = call("info", folder, "--json").json["files"]
    expected = {"outcomes": 1234, "first_bias": 0.5, "first_slope": 0.75, "heat": -0.25}
    assert facts["window"] == expected


def test_memory_follows_dtype_and_context(files: Path) -> None:
    half = call("info", files / "t.gguf", "--json", "--dtype", "bfloat16", "-c", "64").json
    single = call("info", files / "t.gguf", "--json", "-c", "64", "--backend", "torch").json
    (one,), (two,) = single["files"], half["files"]
    for key in ("weights_bytes", "kv_bytes"):
        assert one["memory"][key] == 2 * two["memory"][key]
    assert one["memory"]["tokens"] == 64


def test_windows_bound_the_memory() -> None:
    folder = FIXTURES / "targets" / "gemma3"
    outcome = call("info", folder, "--json", "-c", "256")
    (facts,) = outcome.json["files"]
    kinds = facts["attention"]
    assert any(kind.startswith("window") for kind in kinds)
    assert "tokenizer" in facts
    assert outcome.code == 0


def test_both_containers_are_understood_alike() -> None:
    folder = FIXTURES / "targets" / "llama"
    (ours,) = call("info", folder, "--json").json["files"]
    (theirs,) = call("info", folder / "model.gguf", "--json").json["files"]
    same = ("role", "architecture", "layers", "attention", "width", "vocabulary", "memory")
    assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}
    assert (ours["container"], theirs["container"]) == ("safetensors", "gguf")


def test_drafters_are_explained(files: Path) -> None:
    outcome = call("info", files / "d1", files / "d2", "--json", "--backend", "torch")
    assert outcome.code == 0
    plain, selecting = outcome.json["files"]
    assert (plain["kind"], selecting["kind"]) == ("DFlash", "DFlash2")
    assert "selector" not in plain
    assert (selecting["block"], selecting["taps"], selecting["mask_token"]) == (6, "0, 2", 3)
    rank, width = 6, 48
    assert selecting["selector"] == {
        "candidates": 4,
        "rank": rank,
        "tables": "whole",
        "learned_values": rank * width + 2 * VOCABULARY * rank,
        "table_values": 2 * VOCABULARY * rank,
        "stored_bytes": 4 * (rank * width + 2 * VOCABULARY * rank),
        "resident_bytes": 4 * (rank * width + 2 * VOCABULARY * rank),
        # Five drafted rows of four successors, four rows of four predecessors, and the anchor.
        "read_per_step_bytes": 4 * (rank * width + (20 + 16 + 1) * rank),
    }


def test_a_factored_selector_is_counted_apart() -> None:
    (facts,) = call("info", packaged_drafters()[0], "--json").json["files"]
    selector = facts["selector"]
    rank, width, vocabulary = selector["rank"], facts["width"], facts["vocabulary"]
    assert selector["tables"] == "factors of the target's embedding"
    assert selector["learned_values"] == 3 * rank * width
    assert selector["table_values"] == 2 * rank * vocabulary
    assert selector["stored_bytes"] < selector["resident_bytes"]
    assert selector["read_per_step_bytes"] < selector["resident_bytes"]


def test_a_pair_that_fits(files: Path) -> None:
    for order in (("t.gguf", "d2"), ("d2", "t.gguf")):
        outcome = call("info", *(files / name for name in order), "--json")
        assert (outcome.code, outcome.err) == (0, "")
        pairing = outcome.json["pairing"]
        assert pairing["fits"] is True
        assert pairing["vocabulary"] == f"{VOCABULARY} in both"
        assert pairing["trained_on_this_embedding"] == "unknown, the drafter does not say"


@pytest.mark.parametrize(
    ("drafter", "reason"), [("wide", "64 wide"), ("deep", "layer 7"), ("foreign", "200")]
)
def test_a_pair_that_does_not_fit(files: Path, drafter: str, reason: str) -> None:
    outcome = call("info", files / "t.gguf", files / drafter, "--json")
    assert outcome.code == 1
    assert outcome.json["pairing"]["fits"] is False
    assert reason in outcome.json["pairing"]["reason"]
    assert outcome.err.startswith("error: ")
    assert len(outcome.json["files"]) == 2


def test_a_file_that_cannot_be_used_does_not_hide_the_others(files: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes((files / "t.gguf").read_bytes()[:100_000])
    outcome = call("info", damaged, files / "d1", tmp_path / "missing", "--json")
    assert outcome.code == 1
    assert [facts["role"] for facts in outcome.json["files"]] == ["drafter"]
    first, second = outcome.err.splitlines()
    assert first.startswith("error: damaged.gguf: ")
    assert "missing" in second


def test_people_are_told_about_the_back_end(files: Path) -> None:
    outcome = call("info", files / "t.gguf", files / "d2", "--backend", "torch")
    assert outcome.code == 0
    assert "torch" in outcome.out
    assert "the promise is about the distribution" in outcome.out
    for line in ("role                       target", "kind                       DFlash2"):
        assert line in outcome.out


def test_without_the_extension_the_promise_is_smaller(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (back_end_facts, choice):
        monkeypatch.setattr(module, "extension_fault", lambda: "not there")
    facts = call("info", files / "t.gguf", "--json").json["back_end"]
    assert (facts["name"], facts["native_extension"]) == ("torch", False)
    assert facts["extension_fault"] == "not there"
    assert facts["promise"].startswith("without the native extension the promise is about the dist")
    refused = call("info", files / "t.gguf", "--backend", "native")
    assert refused.code == 1
    assert "not there" in refused.err


@needs_extension
def test_the_native_back_end_and_its_promise(files: Path) -> None:
    outcome = call("info", files / "t.gguf", "--json", "-t", "3")
    facts = outcome.json["back_end"]
    assert (facts["name"], facts["native_extension"], facts["threads"]) == ("native", True, 3)
    assert facts["instruction_set"] == choice.instruction_sets()[0]
    assert "the same bits" in facts["promise"]
    refused = call("info", files / "t.gguf", "--backend", "native", "--dtype", "float64")
    assert (refused.code, refused.out) == (1, "")
    assert "float32 on the cpu" in refused.err


@needs_extension
@pytest.mark.parametrize(("kv", "size"), [("f16", 2), ("q8", 1 + 4 / 32)])
def test_memory_is_that_of_the_native_back_end(tmp_path: Path, kv: str, size: float) -> None:
    from draftwalk.ops.native import NativeOperations

    class Counting(NativeOperations):
        taken = 0

        def matrix(self, raw: RawTensor):  # type: ignore[no-untyped-def]
            made = super().matrix(raw)
            self.taken += made.bytes
            return made

        def vector(self, raw: RawTensor, plus: float = 0.0) -> Tensor:
            made = super().vector(raw, plus)
            self.taken += made.nbytes
            return made

    path = write_target(tmp_path / "t.gguf", head_dim=32)
    ops = Counting()
    build_target(open_model(path), ops)
    outcome = call("info", path, "--json", "--kv-type", kv)
    (facts,) = outcome.json["files"]
    assert facts["memory"]["weights_bytes"] == ops.taken
    values = facts["stored"]["all"]["values"]
    assert facts["memory"]["bytes_per_weight"] == round(ops.taken / values, 4)
    assert facts["memory"]["kv_bytes"] == 2 * 3 * 512 * 2 * 32 * size


@needs_extension
def test_k_and_v_that_have_no_8_bit_form_are_refused(files: Path) -> None:
    outcome = call("info", files / "t.gguf", "--kv-type", "q8")
    assert outcome.code == 1
    assert "multiple of 32" in outcome.err


def test_a_list_of_tokens_counts(files: Path, tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(map(str, range(3, 23))))
    for file in ("d1", "d2"):
        outcome = call("info", files / file, files / "t.gguf", "--draft-vocabulary", ids, "--json")
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.json["files"][0]["draft_vocabulary"] == 20
        whole = call("info", files / file, "--json").json
        assert "draft_vocabulary" not in whole["files"][0]
    alone = call("info", files / "t.gguf", "--draft-vocabulary", ids)
    assert alone.code == 1
    assert "ids.txt is for a drafter, but there is none" in alone.err
    ids.write_text("100000")
    other = call("info", files / "d1", "--draft-vocabulary", ids)
    assert other.code == 1
    assert other.err.startswith("error: the draft vocabulary names token 100000, the target has ")


def test_no_file_is_a_usage_error() -> None:
    assert call("info").code == 2
