"""A way there and back leaves every byte of a folder's tensors and every word of its config."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from draftwalk.convert import Options, Report, convert, mix_of
from draftwalk.convert.same import differences
from draftwalk.draft.export import calibrated
from draftwalk.draft.load import read_config
from draftwalk.errors import CheckpointError
from draftwalk.models import open_model
from draftwalk.weights import GgufFile, SafetensorsFolder
from draftwalk.window import Calibration
from support.drafter_folders import random_drafter_folder, target_of
from support.models import FIXTURES, MadeCheckpoint

SEEDS = range(60)
DRAFTERS = sorted(path.name for path in (FIXTURES / "drafters").iterdir())
MIXED = {"dflash-mixed-layers", "dflash2-group-one-mixed", "dflash-two-sequences"}
MIXED |= {"dflash2-two-sequences"}
NARROW = {"dflash2-all-candidates", "dflash2-scaled", "dflash2-five-layers-sliding"}
NARROW |= {"dflash2-full-causal"}


def plain(target: MadeCheckpoint | None = None, outtype: str | None = None) -> Options:
    mix = None if outtype is None else mix_of(outtype)
    return Options(outtype=mix, target=target, tokenizer=False)


def assert_same_folder(back: Path, source: Path) -> None:
    one, other = SafetensorsFolder(back), SafetensorsFolder(source)
    assert (back / "config.json").read_text() == (source / "config.json").read_text()
    assert one.tensors.keys() == other.tensors.keys()
    for name, raw in one.tensors.items():
        expected = other.tensors[name]
        assert raw.shape == expected.shape, name
        assert raw.format is expected.format, name
        assert np.array_equal(raw.data, expected.data), name
    mine, theirs = read_config(open_model(back)), read_config(open_model(source))
    assert differences(mine, theirs) == []
    assert mine.interleaved == theirs.interleaved


def width_of(folder: Path) -> int:
    return int(json.loads((folder / "config.json").read_text())["hidden_size"])


def through_gguf(source: Path, place: Path, outtype: str | None = None) -> Report:
    done = convert(open_model(source), place / "x.gguf", "gguf", plain(outtype=outtype))
    convert(open_model(place / "x.gguf"), place / "back", "hf", plain())
    return done


def through_speculators(source: Path, place: Path) -> None:
    config = json.loads((source / "config.json").read_text())
    target = target_of(config["hidden_size"], config["vocab_size"], config["num_target_layers"])
    convert(open_model(source), place / "between", "speculators", plain(target))
    convert(open_model(place / "between"), place / "back", "hf", plain())


@pytest.mark.parametrize("seed", SEEDS)
def test_random_drafters_through_gguf(seed: int, tmp_path: Path) -> None:
    source = random_drafter_folder(seed).write(tmp_path / "source")
    through_gguf(source, tmp_path)
    assert_same_folder(tmp_path / "back", source)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_drafters_through_gguf_in_full_precision(seed: int, tmp_path: Path) -> None:
    source = random_drafter_folder(seed).write(tmp_path / "source")
    done = through_gguf(source, tmp_path, "f32")
    assert set(done.formats) <= {"F32", "I64"}
    assert_same_folder(tmp_path / "back", source)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_drafters_through_speculators(seed: int, tmp_path: Path) -> None:
    source = random_drafter_folder(seed).write(tmp_path / "source")
    through_speculators(source, tmp_path)
    assert_same_folder(tmp_path / "back", source)


@pytest.mark.parametrize("seed", range(0, 60, 7))
def test_the_long_way_round(seed: int, tmp_path: Path) -> None:
    source = random_drafter_folder(seed).write(tmp_path / "source")
    target = target_of(width_of(source))
    convert(open_model(source), tmp_path / "a", "speculators", plain(target))
    convert(open_model(tmp_path / "a"), tmp_path / "b.gguf", "gguf", plain())
    convert(open_model(tmp_path / "b.gguf"), tmp_path / "c.gguf", "gguf", plain(outtype="f32"))
    convert(open_model(tmp_path / "c.gguf"), tmp_path / "d", "speculators", plain(target))
    convert(open_model(tmp_path / "d"), tmp_path / "e", "hf", plain())
    assert_same_folder(tmp_path / "e", source)


@pytest.mark.parametrize("name", DRAFTERS)
def test_recorded_drafters(name: str, tmp_path: Path) -> None:
    source = FIXTURES / "drafters" / name
    (tmp_path / "other").mkdir()
    through_speculators(source, tmp_path / "other")
    assert_same_folder(tmp_path / "other" / "back", source)
    if name in MIXED | NARROW:
        with pytest.raises(CheckpointError, match=r"some of its layers are causal|needs a width"):
            through_gguf(source, tmp_path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["other"]
        return
    through_gguf(source, tmp_path)
    assert_same_folder(tmp_path / "back", source)


@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_a_speculators_folder_through_gguf(seed: int, tmp_path: Path) -> None:
    """The layout's own configuration and copies of the target's tables come back as well."""
    made = random_drafter_folder(seed).write(tmp_path / "made")
    target = target_of(width_of(made))
    convert(open_model(made), tmp_path / "with", "speculators", plain(target))
    config = json.loads((tmp_path / "with" / "config.json").read_text())
    del config["draftwalk"]  # as if another had written it
    (tmp_path / "with" / "config.json").write_text(json.dumps(config))
    convert(open_model(tmp_path / "with"), tmp_path / "x.gguf", "gguf", plain())
    convert(open_model(tmp_path / "x.gguf"), tmp_path / "back", "speculators", plain())
    assert_same_folder(tmp_path / "back", tmp_path / "with")


@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_a_file_without_provenance_says_the_same(seed: int, tmp_path: Path) -> None:
    """Back from a GGUF file of someone else: a new config.json, and the same values."""
    source = random_drafter_folder(seed).write(tmp_path / "source")
    opened = open_model(source)
    convert(opened, tmp_path / "x.gguf", "gguf", plain())
    file = open_model(tmp_path / "x.gguf")
    for key in [key for key in file.metadata if key.startswith("draftwalk.source.")]:
        del file.metadata[key]  # type: ignore[union-attr]
    target = target_of(width_of(source))
    convert(file, tmp_path / "back", "hf", plain(target))
    back = open_model(tmp_path / "back")
    expected = read_config(opened)
    assert differences(read_config(back), expected) == []
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert config["is_causal"] == expected.causal[0]
    assert config["num_target_layers"] == 9
    assert not read_config(back).interleaved
    for name, raw in back.tensors.items():
        turned = expected.interleaved and ("q_" in name or "k_" in name)
        if name in opened.tensors and not turned:
            assert np.array_equal(raw.unpack(), opened.tensors[name].unpack()), name
            assert raw.format is opened.tensors[name].format, name


@pytest.mark.parametrize("name", ["dflash-plain", "dflash2-plain"])
def test_a_new_config_has_what_other_engines_look_for(name: str, tmp_path: Path) -> None:
    """From a file of llama.cpp's converter: vLLM and SGLang tell a drafter by these keys."""
    file = open_model(FIXTURES / "llama_cpp_converted" / f"{name}.gguf")
    folder = open_model(FIXTURES / "drafters" / name)
    width, vocabulary = (folder.config[key] for key in ("hidden_size", "vocab_size"))
    target = target_of(width, vocabulary, folder.config["num_target_layers"])  # type: ignore[arg-type]
    convert(file, tmp_path / "x", "hf", plain(target))
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    selecting = name.startswith("dflash2")
    assert config["architectures"] == ["DFlash2DraftModel" if selecting else "DFlashDraftModel"]
    assert config["model_type"] == "qwen3"
    assert config["is_causal"] in (True, False)  # engines disagree about its absence
    assert set(config["layer_types"]) == {"full_attention"}
    assert (config["use_sliding_window"], config["sliding_window"]) == (False, None)
    expected = read_config(folder)
    own = config["dflash_config"]
    assert own["target_layer_ids"] == list(expected.taps)
    assert (own["block_size"], own["mask_token_id"]) == (expected.block, expected.mask)
    keys = {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"}
    assert keys & own.keys() == (keys if selecting else set())
    names = SafetensorsFolder(tmp_path / "x").tensors.keys()
    assert names == folder.tensors.keys()  # the codebooks without .weight
    assert all(not one.startswith("model.") for one in names)


def known(positions: int, labels: int = 321) -> Calibration:
    """Numbers that 32 bits hold."""
    bias = tuple(0.25 * n - 1.0 for n in range(positions))
    return Calibration(bias, (0.5,) * positions, -0.75, labels)


def calibrate(folder: Path, labels: int = 321) -> Calibration:
    """Writes a calibration into a folder's config.json."""
    config = json.loads((folder / "config.json").read_text())
    found = known(read_config(open_model(folder)).block - 1, labels)
    (folder / "config.json").write_text(json.dumps(calibrated(config, found)))
    return found


@pytest.mark.parametrize("seed", range(0, 60, 9))
@pytest.mark.parametrize("way", [through_gguf, through_speculators])
def test_a_calibration_survives(way, seed: int, tmp_path: Path) -> None:
    source = random_drafter_folder(seed).write(tmp_path / "source")
    wanted = calibrate(source)
    way(source, tmp_path)
    assert_same_folder(tmp_path / "back", source)
    assert read_config(open_model(tmp_path / "back")).calibration == wanted
    between = tmp_path / ("x.gguf" if way is through_gguf else "between")
    assert read_config(open_model(between)).calibration == wanted


@pytest.mark.parametrize("seed", range(0, 60, 20))
def test_a_calibration_made_later_goes_into_the_config_of_the_source(
    seed: int, tmp_path: Path
) -> None:
    """A folder was converted, measured, and is converted back."""
    source = random_drafter_folder(seed).write(tmp_path / "source")
    target = target_of(width_of(source))
    convert(open_model(source), tmp_path / "between", "speculators", plain(target))
    wanted = calibrate(tmp_path / "between")
    convert(open_model(tmp_path / "between"), tmp_path / "x.gguf", "gguf", plain())
    assert GgufFile(tmp_path / "x.gguf").metadata["draftwalk.window.labels"] == 321
    convert(open_model(tmp_path / "x.gguf"), tmp_path / "back", "hf", plain())
    back = json.loads((tmp_path / "back" / "config.json").read_text())
    own = back.pop("draftwalk")
    assert own.pop("window")["labels"] == 321
    told = json.loads((source / "config.json").read_text())
    assert own == told.pop("draftwalk", {})
    assert back == told, "all else is the source's"
    assert read_config(open_model(tmp_path / "back")).calibration == wanted
