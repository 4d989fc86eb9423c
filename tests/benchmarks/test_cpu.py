"""The benchmark's own arithmetic, and a whole run of it on a tiny model without other engines."""

import importlib
import json
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from draftwalk.weights import GgufFile

ROOT = Path(__file__).parent.parent.parent
OURS = ("cpu", "kl", "cpu_parts")
TEXT = (ROOT / "LICENSE").read_text()


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[Path]:
    folder = ROOT / "benchmarks"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def tiny(benchmarks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers in Q4_K, embedding in Q8_0."""
    weights = module("cpu_parts.random_weights")
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    shape = weights.Shape(2, 256, 512, 4, 2, 64, vocabulary=300, context=512)
    weights.write_qwen3(path, shape, "Q4_K", "Q8_0", "for a test")
    return path


def machine() -> object:
    return module("cpu_parts.machine").Machine(
        2, 20.0, 12.0, {"narrow": 200.0, "wide": 100.0}, {"narrow": "a", "wide": "b"}
    )


def test_a_whole_run_gives_one_document(benchmarks: Path, tiny: Path) -> None:
    cpu, plans = module("cpu"), module("cpu_parts.measure")
    plan = plans.Plan(
        widths=(1, 8), rounds=2, turn_s=0.0, tokens=3, context=70, prompt=80, prefills=1, loads=1
    )
    setting = cpu.Setting(("draftwalk",), Path("none"), "torch", 1, plan, TEXT)
    sources = module("cpu_parts.model_files").Sources(tiny.parent)
    told: list[str] = []
    names = [str(tiny), "no-such-model"]
    document = cpu.bench(names, sources, setting, lambda _threads: machine(), told.append)
    assert json.loads(json.dumps(document)) == document
    assert document["bandwidth_gb_s"] == 20.0
    assert document["dot_gmac_s"] == {"narrow": 200.0, "wide": 100.0}
    assert "no-such-model" in document["failed"]["no-such-model"]["all"]
    entry = document["models"][str(tiny)]
    assert entry["decode_tok_s"]["draftwalk"] > 0
    assert entry["pass_ms"]["draftwalk"].keys() == {"1", "8"}
    assert entry["prefill_512_ms"]["draftwalk"] > 0
    assert entry["load_s"]["draftwalk"] > 0
    assert entry["memory_mb"]["draftwalk"] > 0
    assert entry["formats"] == {"Q8_0": 1, "Q4_K": 14, "F32": 9}
    macs = 2 * (256 * 256 * 2 + 2 * 128 * 256 + 3 * 512 * 256)
    floor = 8e-9 * (macs / 200 + 300 * 256 / 100)
    share = floor / (1e-3 * entry["pass_ms"]["draftwalk"]["8"])
    assert entry["shares"]["dot_8"] == pytest.approx(share, abs=6e-4)
    assert f"{tiny}: the file" in told
    table = module("cpu_parts.report").table_of(document["models"], ["draftwalk"])
    assert table.row_count == 2


def test_entries_are_medians_with_their_spread(benchmarks: Path, tiny: Path) -> None:
    report, counts = module("cpu_parts.report"), module("cpu_parts.counts")
    footprint = module("cpu_parts.footprint").Footprint
    samples = {
        "draftwalk": {"pass_1": [0.003, 0.001, 0.002], "pass_8": [0.004], "decode": [0.002]},
        "llama.cpp": {"pass_1": [0.004], "pass_8": [0.010], "decode": [0.005]},
    }
    loads = [footprint(1.0, 100.0, 90.0), footprint(3.0, 120.0, 91.0), footprint(2.0, 110.0, 92.0)]
    work = counts.Work(20_000_000, 16_000_000, {"narrow": 50_000_000}, 1024, {"Q4_K": 3})
    entry = report.entry_of(samples, {"draftwalk": loads, "llama.cpp": []}, work, machine())
    assert entry["decode_tok_s"] == {"draftwalk": 500.0, "llama.cpp": 200.0}
    assert entry["pass_ms"]["draftwalk"] == {"1": 2.0, "8": 4.0}
    assert entry["load_s"] == {"draftwalk": 2.0}
    assert entry["memory_mb"] == {"draftwalk": 110.0}
    assert entry["spread"]["draftwalk"]["pass_1"] == 0.5
    assert entry["ratios"] == {"pass_1": 0.5, "pass_8": 0.4, "decode": 2.5}
    assert entry["shares"] == {"read_1": 0.4, "dot_8": 0.5}
    # 1.6 passes of one row are 3.2 ms; the products of 8 rows at 60% take 3.33 ms, times 1.15.
    assert entry["bound_8_ms"] == pytest.approx(3.833, abs=1e-3)


def test_profiles_say_what_kernels_account_for(benchmarks: Path) -> None:
    report, counts = module("cpu_parts.report"), module("cpu_parts.counts")
    work = counts.Work(20_000_000, 16_000_000, {"narrow": 50_000_000}, 1024, {"Q4_K": 3})
    samples = {"draftwalk": {"pass_1": [0.0018], "pass_8": [0.005], "decode": [0.1]}}
    profiles = {
        1: {"linear": 0.001, "gated": 0.0005, "norm": 0.0001, "pass": 0.0018, "step": 0.002},
        8: {"linear": 0.003, "gated": 0.001, "attend": 0.0005, "pass": 0.005, "step": 0.002},
    }
    entry = report.entry_of(samples, {}, work, machine(), profiles)
    assert entry["shares"]["dot_8"] == 0.4
    assert entry["shares"]["dot_8_products"] == 0.5
    assert entry["shares"]["outside_kernels"] == 0.2
    assert entry["kernels_ms"]["8"]["attend"] == 0.5
    assert "ratios" not in entry


def test_kernels_of_a_pass_are_timed(benchmarks: Path, tiny: Path) -> None:
    pytest.importorskip("draftwalk._native")
    arm = module("cpu_parts.draftwalk_arm").DraftwalkArm("native")
    arm.load(tiny, 1, 128)
    ids = module("cpu_parts.text").token_ids(tiny, TEXT, 78)
    arm.read(ids[:70])
    found = arm.profile(ids[70:78], 2)
    assert {"linear", "gated", "attend", "norm", "pass", "step"} <= found.keys()
    assert all(seconds >= 0 for seconds in found.values())
    assert arm.passes(ids[70:78], 2)  # nothing of the clocks stays behind


def test_random_matrices_are_centred_and_as_large_as_asked(benchmarks: Path) -> None:
    weights = module("cpu_parts.random_weights")
    for name in weights.RANDOM_FORMATS:
        raw = weights.random_matrix("w", (64, 512), name, np.random.default_rng(3))
        values = raw.unpack()
        assert np.isfinite(values).all(), name
        assert 0.015 < values.std() < 0.06, name
        assert abs(values.mean()) < 0.01, name


def test_requantising_changes_matrices_and_nothing_else(
    benchmarks: Path, tiny: Path, tmp_path: Path
) -> None:
    path = tmp_path / "again.gguf"
    module("cpu_parts.requantise").requantise(tiny, path, "Q4_0", "for a test")
    before, after = GgufFile(tiny), GgufFile(path)
    changed = {"general.file_type", "general.name"}
    kept = before.metadata.keys() - changed
    assert after.metadata.keys() == before.metadata.keys()
    assert all(after.metadata[key] == before.metadata[key] for key in kept)
    for name, raw in before.tensors.items():
        packed = after.tensors[name]
        if raw.format.NAME != "Q4_K":
            assert packed.data.tobytes() == raw.data.tobytes()
            continue
        assert packed.format.NAME == "Q4_0"
        error = np.abs(packed.unpack() - raw.unpack()).mean()
        assert 0 < error < 0.2 * np.abs(raw.unpack()).mean()


def test_files_are_written_once_for_each_recipe(benchmarks: Path, tmp_path: Path) -> None:
    files, weights = module("cpu_parts.model_files"), module("cpu_parts.random_weights")
    shape = weights.Shape(1, 32, 32, 1, 1, 32, vocabulary=258)
    sources, written = files.Sources(tmp_path), []

    def write(path: Path, recipe: str) -> None:
        written.append(recipe)
        weights.write_qwen3(path, shape, "Q8_0", "Q8_0", recipe)

    for _ in range(2):
        sources.made("a.gguf", lambda path: write(path, "an older one"))
    for _ in range(2):
        sources.made("a.gguf", lambda path: write(path, files.RECIPE))
    assert written == ["an older one", "an older one", files.RECIPE]


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_the_machine_is_measured(benchmarks: Path) -> None:
    probe = module("cpu_parts.machine").Probe()
    found = [probe.measure(1, buffer_mib=4, repetitions=1) for _ in range(2)]
    probe.close()
    assert all(one.read_gb_s > 0 for one in found)
    assert all(rate > 0 for one in found for rate in one.dot_gmac_s.values())
    middle = module("cpu_parts.machine").Machine.median(found)
    assert middle.read_gb_s == statistics.median(one.read_gb_s for one in found)


def test_divergence_of_known_distributions(benchmarks: Path) -> None:
    kl = module("kl")
    p = np.log(np.array([[0.5, 0.5], [0.9, 0.1]], np.float32))
    q = np.log(np.array([[0.25, 0.75], [0.9, 0.1]], np.float32)) + np.float32(3)
    expected = torch.tensor([0.5 * np.log(2) + 0.5 * np.log(2 / 3), 0.0], dtype=torch.float64)
    torch.testing.assert_close(kl.divergences(p, q), expected, atol=1e-6, rtol=0)


def test_chunks_are_compared_row_by_row(benchmarks: Path, tiny: Path) -> None:
    kl, arms = module("kl"), module("cpu_parts.draftwalk_arm")
    skipped, chunks = module("cpu_parts.text").chunks_of(tiny, TEXT, 150, 100)
    assert skipped == 0
    assert [len(chunk) for chunk in chunks] == [100, 50]
    torch.set_num_threads(1)
    reference, same = arms.DraftwalkArm("torch"), arms.DraftwalkArm("torch")
    reference.load(tiny, 1, 128)
    same.load(tiny, 1, 128)
    found = kl.compare(reference, {"draftwalk": same}, chunks, skipped=1)
    assert len(found["draftwalk"]) == 148
    assert float(found["draftwalk"].abs().max()) < 1e-9
