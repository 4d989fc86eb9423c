"""Files appear whole or not at all, replace nothing unasked, and every doubt is an error."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from draftwalk.convert import Options, convert, mix_of, override_of
from draftwalk.convert.drafter import read_drafter
from draftwalk.convert.drafter_gguf import gguf_metadata
from draftwalk.convert.provenance import CONFIG_KEY, DTYPES_KEY
from draftwalk.convert.replacing import replacing
from draftwalk.draft.dialect import FINGERPRINT_KEY
from draftwalk.draft.load import read_config
from draftwalk.errors import CheckpointError, PairingError, UserError
from draftwalk.models import open_model
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.weights import GgufCheckpoint, GgufFile, Typed, pack_tensor, write_gguf
from support.drafter_folders import random_drafter_folder, target_of
from support.models import FIXTURES, MadeCheckpoint, drafter_checkpoint

PLAIN = Options(tokenizer=False)


def drafter(width: int = 64, **changes: object) -> MadeCheckpoint:
    made = drafter_checkpoint(96, width, (1, 3), selector=True, causal=False, mlp=64)
    config = {**made.config, "architectures": ["DFlash2DraftModel"], "num_target_layers": 9}
    return replace(made, config={**config, **changes})


def gguf(path: Path) -> GgufCheckpoint:
    opened = open_model(path)
    assert isinstance(opened, GgufCheckpoint)
    return opened


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    for to, name in (("gguf", "x.gguf"), ("hf", "folder")):
        convert(drafter(), tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=r"exists \(--force"):
            convert(drafter(), tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
        forced = replace(PLAIN, force=True, outtype=mix_of("f16"))
        done = convert(drafter(), tmp_path / name, to, forced)  # type: ignore[arg-type]
        assert done.formats["F16"] > 10
        opened = open_model(tmp_path / name)
        assert opened.tensors["fc.weight"].format.NAME == "F16"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "x.gguf"]


def test_a_folder_with_other_things_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    place.mkdir()
    convert(drafter(), place, "hf", PLAIN)  # an empty one is free
    (place / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"holds thesis\.tex"):
        convert(drafter(), place, "hf", replace(PLAIN, force=True))
    assert (place / "thesis.tex").read_text() == "years of work"


def test_a_file_where_a_folder_shall_be(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a")
    convert(drafter(), tmp_path / "x", "hf", replace(PLAIN, force=True))
    assert (tmp_path / "x" / "config.json").is_file()
    with pytest.raises(UserError, match="there is no folder"):
        convert(drafter(), tmp_path / "no" / "x.gguf", "gguf", PLAIN)


def test_the_source_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    convert(drafter(), path, "gguf", PLAIN)
    with pytest.raises(UserError, match="is what is converted"):
        convert(open_model(path), tmp_path / "." / "x.gguf", "gguf", replace(PLAIN, force=True))


def test_nothing_that_is_read_is_written_over(tmp_path: Path) -> None:
    """Neither the target nor a file of a source's folder, whatever --force says."""
    forced = replace(PLAIN, force=True)
    convert(drafter(), tmp_path / "folder", "hf", PLAIN)
    source = open_model(tmp_path / "folder")
    with pytest.raises(UserError, match="lies in what is converted"):
        convert(source, tmp_path / "folder" / "model.safetensors", "gguf", forced)
    target = replace(target_of(64), path=tmp_path / "target.gguf")
    target.path.write_bytes(b"weights")
    with pytest.raises(UserError, match="is the target"):
        convert(source, target.path, "gguf", replace(forced, target=target))
    assert read_config(open_model(tmp_path / "folder")) is not None
    assert target.path.read_bytes() == b"weights"


def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is no regular file, so it is not replaced"):
        convert(drafter(), tmp_path / "pipe", "gguf", replace(PLAIN, force=True))
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(CheckpointError, match="is no regular file"):
        open_model(tmp_path / "pipe")


class StoppedError(Exception):
    """In place of Ctrl-C."""


@pytest.mark.parametrize(("to", "name"), [("gguf", "x.gguf"), ("hf", "x")])
def test_a_stop_in_the_middle_leaves_what_was_there(to: str, name: str, tmp_path: Path) -> None:
    convert(drafter(), tmp_path / name, to, PLAIN)  # type: ignore[arg-type]
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        if done * 2 > total:
            raise StoppedError

    options = replace(PLAIN, force=True, progress=progress, outtype=mix_of("f16"))
    with pytest.raises(StoppedError):
        convert(drafter(), tmp_path / name, to, options)  # type: ignore[arg-type]
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert seen == sorted(seen)
    assert seen[0][0] > 0


def test_progress_ends_at_its_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    options = replace(PLAIN, progress=lambda done, total: seen.append((done, total)))
    done = convert(drafter(), tmp_path / "x.gguf", "gguf", options)
    assert seen[-1] == (done.bytes, done.bytes)
    assert len(seen) == sum(done.formats.values())


def fill(place: Path) -> None:
    with replacing(place, True) as new:
        new.mkdir()
        (new / "config.json").write_text("new")


def test_replacing_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "x"
    place.mkdir()
    (place / "config.json").write_text("old")
    rename = Path.rename

    def failing(self: Path, other: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError(28, "No space left on device")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(UserError, match="cannot be written: No space"):
        fill(place)
    assert (place / "config.json").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    made = drafter()
    values = made.tensors["fc.weight"].unpack().copy()
    values[3, 5] = np.nan
    broken = replace(
        made, tensors={**made.tensors, "fc.weight": pack_tensor("fc.weight", values, F32)}
    )
    for outtype in ("q8_0", "f16", "bf16", "q4_0"):
        options = replace(PLAIN, outtype=mix_of(outtype))
        with pytest.raises(CheckpointError, match=r"fc\.weight has values that are not finite"):
            convert(broken, tmp_path / "x.gguf", "gguf", options)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("outtype", ["f16", "q8_0", "q4_1"])
def test_values_that_do_not_fit(outtype: str, tmp_path: Path) -> None:
    made = drafter()
    values = made.tensors["fc.weight"].unpack() * np.float32(1e9)
    large = replace(
        made, tensors={**made.tensors, "fc.weight": pack_tensor("fc.weight", values, F32)}
    )
    with pytest.raises(CheckpointError, match=r"fc\.weight has values too large"):
        convert(large, tmp_path / "x.gguf", "gguf", replace(PLAIN, outtype=mix_of(outtype)))
    convert(large, tmp_path / "x.gguf", "gguf", replace(PLAIN, outtype=mix_of("bf16")))


def test_packing_again_is_asked_for(tmp_path: Path) -> None:
    convert(drafter(), tmp_path / "a.gguf", "gguf", replace(PLAIN, outtype=mix_of("q8_0")))
    packed = gguf(tmp_path / "a.gguf")
    again = replace(PLAIN, outtype=mix_of("q4_0"))
    with pytest.raises(UserError, match=r"is Q8_0 already.*--allow-requantize"):
        convert(packed, tmp_path / "b.gguf", "gguf", again)
    convert(packed, tmp_path / "b.gguf", "gguf", replace(again, requantize=True))
    convert(packed, tmp_path / "c.gguf", "gguf", PLAIN)
    convert(packed, tmp_path / "d.gguf", "gguf", replace(PLAIN, outtype=mix_of("q8_0")))
    for name in ("c.gguf", "d.gguf"):
        for tensor, raw in gguf(tmp_path / name).tensors.items():
            assert np.array_equal(raw.data, packed.tensors[tensor].data), tensor
    unpacked = convert(packed, tmp_path / "e", "hf", PLAIN)
    assert set(unpacked.formats) == {"F32"}  # as the source was


def test_a_config_that_is_not_the_file_s(tmp_path: Path) -> None:
    convert(drafter(), tmp_path / "a.gguf", "gguf", PLAIN)
    file = GgufFile(tmp_path / "a.gguf")
    told = json.loads(str(file.metadata[CONFIG_KEY]))
    told["dflash_config"]["target_layer_ids"] = [1, 2]
    for key, value, message in (
        (CONFIG_KEY, json.dumps(told), "says otherwise than the file: taps"),
        (CONFIG_KEY, "{", "not valid JSON"),
        (DTYPES_KEY, '{"fc.weight": "Q4_0"}', r"tensor 'fc\.weight' has no type"),
        (DTYPES_KEY, '{"more.weight": "F32"}', r"tensor more\.weight of its source is missing"),
    ):
        write_gguf(tmp_path / "b.gguf", {**file.metadata, key: value}, [*file.tensors.values()])
        with pytest.raises(CheckpointError, match=message):
            convert(open_model(tmp_path / "b.gguf"), tmp_path / "back", "hf", PLAIN)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.gguf", "b.gguf"]


def test_what_gguf_cannot_say_is_not_written(tmp_path: Path) -> None:
    for changes, message in (
        ({"is_causal": None, "layer_types": ["sliding_attention", "full_attention"]}, "causal"),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                }
            },
            "'llama3' cannot be said",
        ),
        (
            {
                "dflash_config": {
                    **drafter().config["dflash_config"],  # type: ignore[dict-item]
                    "selector_top_k": 8,
                }
            },
            "needs a width of 72",
        ),
    ):
        with pytest.raises(CheckpointError, match=message):
            convert(drafter(**changes), tmp_path / "x.gguf", "gguf", PLAIN)
    assert not [*tmp_path.iterdir()]


def test_folders_hold_floats_only(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot hold Q4_K_M"):
        convert(drafter(), tmp_path / "x", "hf", replace(PLAIN, outtype=mix_of("q4_k_m")))
    with pytest.raises(UserError, match="types of a GGUF file"):
        convert(drafter(), tmp_path / "x", "hf", replace(PLAIN, overrides=[override_of("x=F16")]))
    options = replace(PLAIN, overrides=[override_of("norm=Q8_0")])
    with pytest.raises(UserError, match="no matrix of that name"):
        convert(drafter(), tmp_path / "x.gguf", "gguf", options)


def test_the_target_is_asked_for_where_it_is_needed(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="a copy of the target's embedding"):
        convert(drafter(), tmp_path / "x", "speculators", PLAIN)
    with pytest.raises(UserError, match="carries its target's tokenizer"):
        convert(drafter(), tmp_path / "x.gguf", "gguf", Options())
    with pytest.raises(CheckpointError, match="how many layers its target has"):
        convert(drafter(num_target_layers=None), tmp_path / "x", "hf", PLAIN)
    other = replace(PLAIN, target=target_of(32))
    with pytest.raises(PairingError, match="the target is 32 wide"):
        convert(drafter(), tmp_path / "x", "hf", other)
    wrong = replace(PLAIN, target=drafter())
    with pytest.raises(CheckpointError, match=r"embed_tokens\.weight is missing"):
        convert(drafter(), tmp_path / "x", "hf", wrong)


def test_a_table_of_the_drafter_s_own_and_the_target_s_head(tmp_path: Path) -> None:
    """GGUF would take the embedding for the head, so the target's head is written beside it."""
    made, target = drafter(), target_of(64)
    own = pack_tensor("embed_tokens.weight", np.ones((96, 64), np.float32), F32)
    both = replace(made, tensors={**made.tensors, own.name: own})
    with pytest.raises(CheckpointError, match="the target's head"):
        convert(both, tmp_path / "x.gguf", "gguf", PLAIN)
    convert(both, tmp_path / "x.gguf", "gguf", replace(PLAIN, target=target))
    written = gguf(tmp_path / "x.gguf").tensors["lm_head.weight"]
    assert np.array_equal(written.unpack(), target.tensors["lm_head.weight"].unpack())
    convert(gguf(tmp_path / "x.gguf"), tmp_path / "back", "hf", PLAIN)
    back = open_model(tmp_path / "back").tensors
    assert "lm_head.weight" not in back
    assert np.array_equal(back["embed_tokens.weight"].data, own.data)


def test_copies_of_the_target_s_tables_are_left_out(tmp_path: Path) -> None:
    made, target = drafter(), target_of(64)
    convert(made, tmp_path / "spec", "speculators", replace(PLAIN, target=target))
    config = json.loads((tmp_path / "spec" / "config.json").read_text())
    del config["draftwalk"]
    (tmp_path / "spec" / "config.json").write_text(json.dumps(config))
    folder = open_model(tmp_path / "spec")
    convert(folder, tmp_path / "kept.gguf", "gguf", PLAIN)
    assert "token_embd.weight" in gguf(tmp_path / "kept.gguf").file.tensors
    convert(folder, tmp_path / "left.gguf", "gguf", replace(PLAIN, target=target))
    assert "token_embd.weight" not in gguf(tmp_path / "left.gguf").file.tensors
    assert "output.weight" not in gguf(tmp_path / "left.gguf").file.tensors
    other = replace(
        target,
        tensors={**target.tensors, "lm_head.weight": target.tensors["model.embed_tokens.weight"]},
    )
    convert(folder, tmp_path / "half.gguf", "gguf", replace(PLAIN, target=other))
    names = gguf(tmp_path / "half.gguf").file.tensors
    assert "output.weight" in names
    assert "token_embd.weight" not in names


def test_the_scale_of_the_features_is_multiplied_in(tmp_path: Path) -> None:
    made = drafter()
    scale = pack_tensor("fc.scale", np.array([0.5], np.float32), F32)
    convert(
        replace(made, tensors={**made.tensors, "fc.scale": scale}),
        tmp_path / "a.gguf",
        "gguf",
        PLAIN,
    )
    packed = gguf(tmp_path / "a.gguf")
    assert "fc.scale" in packed.file.tensors
    for key in (CONFIG_KEY, DTYPES_KEY):
        del packed.file.metadata[key]
    convert(packed, tmp_path / "x", "hf", replace(PLAIN, target=target_of(64)))
    back = open_model(tmp_path / "x").tensors
    assert "fc.scale" not in back
    assert np.array_equal(back["fc.weight"].unpack(), made.tensors["fc.weight"].unpack() / 2)


@pytest.mark.parametrize("seed", range(0, 40, 3))
def test_quantised_files_say_the_same_and_keep_what_is_no_matrix(seed: int, tmp_path: Path) -> None:
    source = open_model(random_drafter_folder(seed).write(tmp_path / "source"))
    for name in ("Q4_K_M", "Q5_1", "Q8_0"):
        options = replace(PLAIN, outtype=mix_of(name))
        done = convert(source, tmp_path / f"{name}.gguf", "gguf", options)
        opened = gguf(tmp_path / f"{name}.gguf")
        assert read_config(opened).taps == read_config(source).taps
        assert opened.metadata["general.file_type"] == mix_of(name).number
        for tensor, raw in opened.file.tensors.items():
            if len(raw.shape) != 2 and tensor != "d2t":
                assert raw.format.NAME == "F32", tensor
        wanted = {one[2] for one in done.fallbacks}
        assert wanted <= {"Q4_K", "Q6_K", "Q5_1", "Q8_0"}
        assert FINGERPRINT_KEY not in opened.metadata


def test_a_target_of_many_planes_is_told(tmp_path: Path) -> None:
    """A drafter of an M-RoPE target turns by the first plane alone."""
    target = target_of(64)
    rope = {"rope_type": "default", "mrope_section": [4, 2, 2]}
    planes = replace(target, config={**target.config, "text_config": {"rope_parameters": rope}})
    convert(drafter(), tmp_path / "a.gguf", "gguf", replace(PLAIN, target=planes))
    convert(gguf(tmp_path / "a.gguf"), tmp_path / "b.gguf", "gguf", PLAIN)
    convert(drafter(), tmp_path / "c.gguf", "gguf", replace(PLAIN, target=target))
    key = "dflash.rope.dimension_sections"
    for name in ("a.gguf", "b.gguf"):
        assert gguf(tmp_path / name).metadata[key] == [8, 0, 0, 0]
    assert key not in gguf(tmp_path / "c.gguf").metadata


def test_keys_are_those_of_llama_cpp_s_converter() -> None:
    """But for those about its own model cards, and what only llama.cpp's Qwen3 has."""
    theirs = gguf(FIXTURES / "llama_cpp_converted" / "dflash2-plain.gguf").metadata
    mine = gguf_metadata(
        read_drafter(open_model(FIXTURES / "drafters" / "dflash2-plain"), None, True),
        mix_of("bf16"),
        {},
    )
    for key, value in theirs.items():
        if key.startswith("dflash."):
            found = mine[key]
            assert (found.value if isinstance(found, Typed) else found) == value, key
    assert mine["tokenizer.ggml.mask_token_id"] == theirs["tokenizer.ggml.mask_token_id"]
    assert mine["general.file_type"] == theirs["general.file_type"]
