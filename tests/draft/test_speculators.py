"""The speculators layout is read as the Hugging Face drafter it says it is."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from draftwalk.draft.load import read_config
from draftwalk.draft.speculators import usual_config
from draftwalk.errors import CheckpointError
from draftwalk.models import open_model
from draftwalk.quant.integers import I64, Bool
from draftwalk.weights import RawTensor, pack_integers
from support.drafts import tokens_of
from support.gguf_drafters import floats
from support.models import MadeCheckpoint, drafter_checkpoint

WIDTH, VOCABULARY = 48, 160
IDS = np.array([3, 4, 8, 15, 16, 23, 42, 99, 120, 159])


def made(selector: bool, **changes: Any) -> MadeCheckpoint:
    one = drafter_checkpoint(VOCABULARY, WIDTH, (0, 2), selector)
    return replace(one, config={**one.config, **changes})


def layout(one: MadeCheckpoint) -> dict[str, Any]:
    """Its configuration as the library writes it."""
    config: dict[str, Any] = copy.deepcopy(dict(one.config))
    own = config.pop("dflash_config")
    config.pop("is_causal")
    taps = own.pop("target_layer_ids")
    kind = "dflash2" if "selector_rank" in own else "dflash"
    return {
        "architectures": ["DFlash2DraftModel" if kind == "dflash2" else "DFlashSpeculator"],
        "speculators_model_type": kind,
        "speculators_version": "0.5.0",
        "speculators_config": {"algorithm": kind, "verifier": {"name_or_path": "some/target"}},
        "transformer_layer_config": {**config, "model_type": "qwen3", "use_sliding_window": True},
        "aux_hidden_state_layer_ids": [tap + 1 for tap in taps],
        "draft_vocab_size": VOCABULARY,
        "target_hidden_size": None,
        "sample_from_anchor": False,
        "dtype": "float32",
        "transformers_version": "5.0.0",
        **own,
    }


def folder(path: Path, config: dict[str, Any], tensors: dict[str, RawTensor]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    arrays: dict[str, Any] = {}
    for name, raw in tensors.items():
        if isinstance(raw.format, Bool):
            arrays[name] = raw.integers().astype(np.bool_)
        else:
            arrays[name] = raw.integers() if name == "d2t" else raw.unpack().copy()
    save_file(arrays, path / "model.safetensors")
    return path


@pytest.mark.parametrize("selector", [True, False])
@pytest.mark.parametrize("sliding", [True, False])
@pytest.mark.parametrize("two_way", [True, False, None])
def test_a_folder_is_the_hugging_face_drafter(
    selector: bool, sliding: bool, two_way: bool | None, tmp_path: Path
) -> None:
    types = ["sliding_attention" if sliding else "full_attention", "full_attention"]
    one = made(selector, layer_types=types)
    config = layout(one)
    if two_way is not None:
        config["sliding_window_non_causal"] = two_way
    causal = False if two_way or (two_way is None and selector) else None
    same = made(selector, layer_types=types, is_causal=causal)
    opened = open_model(folder(tmp_path / "d", config, dict(one.tensors)))
    assert str(read_config(opened)) == str(read_config(same))
    assert tokens_of(opened) == tokens_of(same)
    assert opened.architecture == ("DFlash2DraftModel" if selector else "DFlashDraftModel")


def reduced(order: np.ndarray[Any, Any] | None = None) -> tuple[MadeCheckpoint, dict[str, Any]]:
    """A drafter with embedding, smaller head, map and mask of its own."""
    one = made(False, draft_vocab_size=len(IDS))
    ids = IDS if order is None else IDS[order]
    head = floats("lm_head.weight", len(IDS), WIDTH).unpack()
    head = head if order is None else head[order]
    tensors = {
        **one.tensors,
        "embed_tokens.weight": floats("embed_tokens.weight", VOCABULARY, WIDTH),
        "lm_head.weight": replace(
            floats("lm_head.weight", len(IDS), WIDTH), data=head.view(np.uint8).reshape(-1)
        ),
        "d2t": pack_integers("d2t", ids - np.arange(len(IDS)), I64()),
        "t2d": pack_integers("t2d", np.isin(np.arange(VOCABULARY), IDS).astype(np.int64), Bool()),
    }
    config = layout(made(False))
    config["draft_vocab_size"] = len(IDS)
    return replace(one, tensors=tensors), config


def test_a_head_of_fewer_tokens(tmp_path: Path) -> None:
    one, config = reduced()
    opened = open_model(folder(tmp_path / "d", config, dict(one.tensors)))
    assert str(read_config(opened)) == str(read_config(one))
    drafts = tokens_of(opened)
    assert drafts == tokens_of(one)
    assert {token for tokens in drafts for token in tokens} <= set(IDS.tolist())
    without = {name: raw for name, raw in one.tensors.items() if name != "t2d"}
    assert tokens_of(replace(one, tensors=without)) == drafts
    # The order of its rows is a matter of storage.
    other, _ = reduced(np.array([3, 1, 0, 9, 8, 2, 7, 5, 6, 4]))
    assert tokens_of(other) == drafts


def test_a_mask_that_says_otherwise() -> None:
    one, _ = reduced()
    wrong = np.isin(np.arange(VOCABULARY), IDS + 1).astype(np.int64)
    tensors = {**one.tensors, "t2d": pack_integers("t2d", wrong, Bool())}
    with pytest.raises(CheckpointError, match="d2t and t2d name different tokens"):
        tokens_of(replace(one, tensors=tensors))


def test_defaults_are_the_library_s() -> None:
    config = layout(made(True))
    for key in ("block_size", "conv_kernel_size", "conv_group_size", "selector_rank"):
        del config[key]
    del config["selector_top_k"], config["draft_vocab_size"]
    del config["transformer_layer_config"]["head_dim"]
    usual = usual_config(config, "x")
    assert usual["dflash_config"] == {
        "block_size": 8,
        "mask_token_id": 3,
        "target_layer_ids": [0, 2],
        "conv_kernel_size": 2,
        "conv_group_size": 16,
        "selector_rank": 256,
        "selector_top_k": 16,
    }
    assert (usual["draft_vocab_size"], usual["head_dim"]) == (VOCABULARY, 128)
    plain = layout(made(False))
    del plain["draft_vocab_size"]
    assert usual_config(plain, "x")["draft_vocab_size"] == 32000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speculators_model_type": "eagle3"}, "'eagle3' is not implemented"),
        ({"speculators_model_type": 3}, "speculators_model_type is 3"),
        ({"aux_hidden_state_layer_ids": None}, "aux_hidden_state_layer_ids is missing"),
        ({"aux_hidden_state_layer_ids": [0, 3]}, "names 0, the embedding"),
        (
            {"aux_hidden_state_layer_ids": [1]},
            r"fc\.weight has shape \[48, 96\], expected \[48, 48",
        ),
        ({"mask_token_id": None}, "mask_token_id is missing"),
        ({"mask_token_id": 160}, "mask_token_id 160"),
        ({"sample_from_anchor": True}, "sample_from_anchor"),
        ({"dflash_context_residual": True}, "dflash_context_residual"),
        ({"transformer_layer_config": None}, "transformer_layer_config is missing"),
        ({"transformer_layer_config": {"model_type": "llama"}}, "model_type = 'llama'"),
        ({"draft_vocab_size": 80}, "dflash2 drafters have all 160 tokens"),
        ({"draft_vocab_size": 161}, "draft_vocab_size"),
        ({"vocab_size": 161}, "transformer_layer_config.vocab_size says something else"),
        ({"dflash_config": {}}, "key dflash_config is of another layout"),
        ({"block_size": "8"}, "block_size"),
        ({"sliding_window_non_causal": 1}, "sliding_window_non_causal"),
        ({"selector_top_k": 200}, "selector_top_k 200 is above"),
        ({"quantization_config": {"a": 1}}, "quantization_config"),
        ({"surprise": 1}, "key surprise = 1 is not implemented"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    one = made(True)
    path = folder(tmp_path / "d", {**layout(one), **changes}, dict(one.tensors))
    with pytest.raises(CheckpointError, match=message) as caught:
        read_config(open_model(path))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "renamed",
    [
        {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"},
        {
            f"candidate_selector.{side}_codebook": f"candidate_selector.{side}_codebook.weight"
            for side in ("predecessor", "successor")
        },
        {"layers.0.self_attn.sinks": "layers.0.self_attn.attention_sink_bias"},
        {"layers.1.self_attn.sinks": "layers.1.self_attn.sinks.weight"},
    ],
)
def test_other_names_of_tensors(renamed: dict[str, str], tmp_path: Path) -> None:
    one = made(True, attention_sink_bias=True, architectures=["DFlash2DraftModel"])
    sinks = {f"layers.{n}.self_attn.sinks": floats("", 2, seed=n) for n in (0, 1)}
    one = replace(one, tensors={**one.tensors, **sinks})
    tensors = {renamed.get(name, name): raw for name, raw in one.tensors.items()}
    opened = open_model(folder(tmp_path / "d", dict(one.config), tensors))
    assert tokens_of(opened) == tokens_of(one)
    assert all(name == raw.name for name, raw in opened.tensors.items())
    twice = {**tensors, **{name: one.tensors[name] for name in renamed}}
    with pytest.raises(CheckpointError, match="is a second"):
        open_model(folder(tmp_path / "e", dict(one.config), twice))
