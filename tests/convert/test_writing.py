"""What is written says the same, and what a layout cannot say is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from draftwalk.convert import Options, convert, mix_of, override_of
from draftwalk.convert.drafter import read_drafter
from draftwalk.convert.drafter_gguf import gguf_metadata
from draftwalk.convert.provenance import CONFIG_KEY, DTYPES_KEY
from draftwalk.draft.dialect import FINGERPRINT_KEY
from draftwalk.draft.load import read_config
from draftwalk.errors import CheckpointError, PairingError, UserError
from draftwalk.models import open_model
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.quant.integers import I64
from draftwalk.weights import (
    GgufFile,
    Typed,
    pack_integers,
    pack_tensor,
    write_gguf,
)
from support.drafter_folders import random_drafter_folder, target_of
from support.models import FIXTURES
from support.plain_conversion import PLAIN, drafter, gguf


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


def test_speculators_know_no_dflash2_drafter_of_fewer_tokens(tmp_path: Path) -> None:
    made = drafter(draft_vocab_size=5)
    head = pack_tensor("lm_head.weight", np.ones((5, 64), np.float32), F32)
    offsets = pack_integers("d2t", np.full(5, 3), I64())
    reduced = replace(made, tensors={**made.tensors, head.name: head, "d2t": offsets})
    options = replace(PLAIN, target=target_of(64))
    with pytest.raises(CheckpointError, match="a head of 5 tokens cannot be said in the specul"):
        convert(reduced, tmp_path / "x", "speculators", options)
    for to, name in (("gguf", "x.gguf"), ("hf", "x")):
        convert(reduced, tmp_path / name, to, options)  # type: ignore[arg-type]
        assert open_model(tmp_path / name).tensors["d2t"].integers().tolist() == [3] * 5
