"""GGUF drafters of architecture `dflash`: every key and tensor is read, or refused by its name."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from draftwalk.draft.load import build_drafter, read_config
from draftwalk.errors import CheckpointError, UserError
from draftwalk.models import open_model
from draftwalk.quant.integers import I32, I64
from draftwalk.weights import Typed, pack_integers
from draftwalk.weights.gguf_values import ValueType
from support.drafts import drafts_of, tokens_of
from support.gguf_drafters import Keys, floats, gguf_tensors, write_drafter
from support.models import DOUBLE, MadeCheckpoint, drafter_checkpoint, target

WIDTH, VOCABULARY = 48, 160


def made(selector: bool = True, **changes: Any) -> MadeCheckpoint:
    one = drafter_checkpoint(VOCABULARY, WIDTH, (0, 2), selector)
    own = {**one.config["dflash_config"], **changes.pop("own", {})}  # type: ignore[dict-item]
    return replace(one, config={**one.config, **changes, "dflash_config": own})


def same(folder: MadeCheckpoint, path: Path) -> None:
    """The file says and drafts what the folder does."""
    opened = open_model(path)
    mine, theirs = read_config(opened), read_config(folder)
    assert torch.equal(mine.rope, theirs.rope)
    assert str(mine) == str(theirs)
    assert tokens_of(opened) == tokens_of(folder)


@pytest.mark.parametrize("selector", [True, False])
def test_a_file_is_its_folder(selector: bool, tmp_path: Path) -> None:
    same(made(selector, is_causal=False), write_drafter(tmp_path / "d.gguf", made(selector)))


@pytest.mark.parametrize(
    ("keys", "changes"),
    [
        ({"attention.causal": True}, {"is_causal": True}),
        ({"logit_scale": 0.5, "embedding_scale": 2.0, "final_logit_softcapping": 9.0}, {
            "is_causal": False,
            "own": {
                "output_multiplier": 0.5,
                "input_embedding_scale": 2.0,
                "final_logit_softcapping": 9.0,
            },
        }),
        ({"logit_scale": 0.0, "embedding_scale": 0.0, "final_logit_softcapping": 0.0,
          "attention.value_scale": 0.0}, {"is_causal": False}),
        ({"rope.dimension_sections": [8, 0, 0, 0], "hidden_activation": "silu"}, {
            "is_causal": False}),
        ({"attention.sliding_window": 5, "attention.sliding_window_pattern": [True, False]}, {
            "is_causal": False, "layer_types": ["sliding_attention", "full_attention"]}),
        ({"attention.sliding_window": 0}, {"is_causal": False}),
        ({"attention.sliding_window_pattern": [False, False]}, {"is_causal": False}),
        ({"block_size": None}, {"is_causal": False, "own": {"block_size": 16}}),
        ({"target_layers": Typed(ValueType.UINT32, [1, 3])}, {"is_causal": False}),
        ({"target_layers": Typed(ValueType.INT64, [1, 3])}, {"is_causal": False}),
        ({"rope.freq_base": 5e5, "rope.scaling.type": "linear", "rope.scaling.factor": 2.0}, {
            "is_causal": False, "rope_theta": 5e5,
            "rope_scaling": {"type": "linear", "factor": 2.0}}),
        ({"sample_from_anchor": False, "has_confidence_head": False}, {"is_causal": False}),
    ],
)  # fmt: skip
def test_keys(keys: Keys, changes: dict[str, Any], tmp_path: Path) -> None:
    selector = "block_size" not in keys
    same(made(selector, **changes), write_drafter(tmp_path / "d.gguf", made(selector), keys))


def test_sinks_and_own_tables(tmp_path: Path) -> None:
    one = made(is_causal=False, attention_sink_bias=True)
    own = {
        **one.tensors,
        "embed_tokens.weight": floats("embed_tokens.weight", VOCABULARY, WIDTH),
        "lm_head.weight": floats("lm_head.weight", VOCABULARY, WIDTH),
        **{f"layers.{n}.self_attn.sinks": floats("", 2, seed=n) for n in (0, 1)},
    }
    full = replace(one, tensors=own)
    path = write_drafter(tmp_path / "d.gguf", full)
    same(full, path)
    assert read_config(open_model(path)).sinks


def test_a_scale_of_the_fusion_is_one_of_its_weights(tmp_path: Path) -> None:
    """With an epsilon that one can see: 4 times the weights, exactly."""
    eps: Keys = {"attention.layer_norm_rms_epsilon": 0.5}
    scale = replace(floats("fc.scale", 1), data=np.array([4.0], np.float32).view(np.uint8))
    tensors = dict(made().tensors)
    large = tensors["fc.weight"].unpack() * np.float32(4.0)
    tensors["fc.weight"] = replace(tensors["fc.weight"], data=large.view(np.uint8).reshape(-1))
    scaled, plain, times_four = (
        [draft.confidence for draft in drafts_of(open_model(path))]
        for path in (
            write_drafter(tmp_path / "s.gguf", made(), eps, {"fc.scale": scale}),
            write_drafter(tmp_path / "p.gguf", made(), eps),
            write_drafter(tmp_path / "l.gguf", replace(made(), tensors=tensors), eps),
        )
    )
    assert np.allclose(scaled, times_four, rtol=0, atol=1e-12)
    assert not np.allclose(scaled, plain, rtol=0, atol=1e-4)


def test_a_head_of_fewer_tokens(tmp_path: Path) -> None:
    ids = np.array([3, 4, 8, 15, 16, 23, 42, 99, 120, 159])
    offsets = pack_integers("d2t", ids - np.arange(10), I64())
    one = made(is_causal=False, draft_vocab_size=10)
    head = floats("lm_head.weight", 10, WIDTH)
    full = replace(one, tensors={**one.tensors, "d2t": offsets, "lm_head.weight": head})
    path = write_drafter(tmp_path / "d.gguf", full)
    same(full, path)
    assert {t for tokens in tokens_of(open_model(path)) for t in tokens} <= set(ids.tolist())
    narrow = pack_integers("d2t", ids, I32())
    same(full, write_drafter(tmp_path / "n.gguf", full, {}, {"d2t": narrow}))


def test_an_embedding_without_a_head_is_the_head_as_well(tmp_path: Path) -> None:
    table = floats("embed_tokens.weight", VOCABULARY, WIDTH)
    one = made(is_causal=False)
    alone = replace(one, tensors={**one.tensors, "embed_tokens.weight": table})
    both = replace(
        alone, tensors={**alone.tensors, "lm_head.weight": replace(table, name="lm_head.weight")}
    )
    path = write_drafter(tmp_path / "d.gguf", alone)
    assert tokens_of(open_model(path)) == tokens_of(both)
    assert tokens_of(open_model(path)) != tokens_of(alone)


def test_taps_without_the_one_are_told_by_a_nought(tmp_path: Path) -> None:
    path = write_drafter(tmp_path / "d.gguf", made(), {"target_layers": [0, 2]})
    with pytest.warns(UserWarning, match=r"d\.gguf: target_layers has a 0, .* counted from 0"):
        opened = open_model(path)
    assert read_config(opened).taps == (0, 2)
    assert tokens_of(opened) == tokens_of(made(is_causal=False))


def test_codebooks_without_their_ending(tmp_path: Path) -> None:
    names = ("selector_predecessor", "selector_successor")
    whole = gguf_tensors(made())
    changes: dict[str, Any] = {f"{name}.weight": None for name in names}
    changes |= {name: replace(whole[f"{name}.weight"], name=name) for name in names}
    same(made(is_causal=False), write_drafter(tmp_path / "d.gguf", made(), {}, changes))
    twice = {names[0]: changes[names[0]]}
    with pytest.raises(CheckpointError, match=r"is a second candidate_selector\.predecessor"):
        open_model(write_drafter(tmp_path / "t.gguf", made(), {}, twice))


REFUSED: list[tuple[Keys, str]] = [
    ({"target_layers": None}, r"dflash\.target_layers is missing"),
    ({"target_layers": []}, "target_layer_ids names no layer"),
    ({"target_layers": [1, -3]}, r"dflash\.target_layers"),
    ({"target_layers": 3}, r"dflash\.target_layers is 3"),
    ({"target_layers": [1.5, 2.0]}, r"dflash\.target_layers"),
    ({"target_layers": [1, 2, 3]}, r"tensor fc\.weight has shape \[48, 96\], expected \[48, 144\]"),
    ({"target_layers": [1]}, r"tensor fc\.weight has shape \[48, 96\], expected \[48, 48\]"),
    ({"tokenizer.ggml.mask_token_id": None}, r"tokenizer\.ggml\.mask_token_id is missing"),
    ({"tokenizer.ggml.mask_token_id": 160}, "mask_token_id 160 is not among its 160"),
    ({"tokenizer.ggml.mask_token_id": "<m>"}, "mask_token_id"),
    ({"vocab_size": None}, r"dflash\.vocab_size is missing"),
    ({"vocab_size": 161}, "the drafter knows 161 tokens, the target 160"),
    ({"tokenizer.ggml.tokens": ["a", "b"]}, "the tokenizer has 2 tokens, the drafter 160"),
    ({"block_size": None}, "block_size is missing"),
    ({"block_size": 1}, "block_size is 1"),
    ({"conv_kernel_size": None}, "conv_kernel_size is missing"),
    ({"conv_group_size": None}, "conv_group_size is missing"),
    ({"selector_rank": None}, "selector_rank is missing"),
    ({"selector_top_k": None}, "selector_top_k is missing"),
    ({"selector_top_k": 0}, "selector_top_k is 0"),
    ({"selector_top_k": 7}, "selector_top_k 7 is too large for a width of 48"),
    ({"selector_top_k": 161}, "selector_top_k 161"),
    ({"conv_group_size": 7}, "conv_group_size 7 does not divide the width 48"),
    ({"conv_kernel_size": 3}, "base_kernel has shape"),
    ({"attention.sliding_window": 5}, "sliding_window_pattern is missing"),
    (
        {"attention.sliding_window": 5, "attention.sliding_window_pattern": [True] * 3},
        "sliding_window_pattern has 3 values for 2 layers",
    ),
    (
        {"attention.sliding_window_pattern": [True, False]},
        r"attention\.sliding_window is missing",
    ),
    (
        {"attention.sliding_window": 5, "attention.sliding_window_pattern": [1, 0]},
        "sliding_window_pattern",
    ),
    ({"rope.dimension_sections": [4, 4, 0, 0]}, "dimension_sections"),
    ({"rope.dimension_sections": [8, 0, 0, 0, 1]}, "dimension_sections"),
    ({"rope.scaling.type": "yarn", "rope.scaling.factor": 2.0}, "yarn"),
    ({"decoder_arch": "laguna"}, "decoder_arch is 'laguna', a decoder that is not implemented"),
    ({"sample_from_anchor": True}, "sample_from_anchor"),
    ({"has_confidence_head": True}, "has_confidence_head"),
    ({"hidden_activation": "gelu"}, "hidden_act = 'gelu' is not implemented"),
    ({"attention.value_scale": 2.0}, "attention_value_scale = 2.0 is not implemented"),
    ({"attention.scale": 0.1}, r"dflash\.attention\.scale is not implemented"),
    ({"attention.causal": 1}, "causal"),
    ({"logit_scale": -1.0}, "output_multiplier"),
    ({"embedding_scale": float("nan")}, "embedding_scale"),
    ({"final_logit_softcapping": -2.0}, "final_logit_softcapping"),
    ({"something.new": 1}, r"dflash\.something\.new is not implemented"),
    ({"draftwalk.draft_vocabulary": "all"}, r"draftwalk\.draft_vocabulary"),
    ({"draftwalk.draft_vocabulary": [*range(161)]}, "names 161 tokens, the drafter knows 160"),
    ({"draftwalk.draft_vocabulary": [1, 2, 3, -4]}, r"draftwalk\.draft_vocabulary"),
    ({"draftwalk.draft_vocabulary": [1, 2, 3]}, "names 3 tokens, this drafter chooses among 4"),
]


@pytest.mark.parametrize(("keys", "message"), REFUSED, ids=lambda value: str(value)[:60])
def test_keys_that_do_not_go_together(keys: Keys, message: str, tmp_path: Path) -> None:
    path = write_drafter(tmp_path / "d.gguf", made(), keys)
    with pytest.raises(UserError, match=message) as caught:
        build(path)
    assert len(str(caught.value).splitlines()) == 1


def build(path: Path) -> None:
    model = target("llama-rope3")
    build_drafter(open_model(path), DOUBLE, model.tables, model.depth, 100)


NINE = pack_integers("d2t", np.arange(9), I64())
HEAD = floats("output.weight", 9, WIDTH)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"markov_w1.weight": floats("markov_w1.weight", 160, 4)}, "markov_w1.* DSpark drafter"),
        ({"fc.weight": None}, r"fc\.weight is missing"),
        ({"enc.output_norm.weight": None}, r"hidden_norm\.weight is missing"),
        ({"selector_hidden.weight": None}, "there is no tensor"),
        ({"blk.0.attn_sinks.weight": floats("blk.0.attn_sinks.weight", 2)}, "layers.1.*sinks is"),
        ({"blk.1.attn_sinks.weight": floats("blk.1.attn_sinks.weight", 2)}, "sinks not used"),
        ({"d2t": NINE}, r"lm_head\.weight is missing"),
        ({"d2t": floats("d2t", 9), "output.weight": HEAD}, "d2t is stored as F32"),
        ({"d2t": pack_integers("d2t", np.arange(8), I64()), "output.weight": HEAD}, "has shape"),
        ({"d2t": pack_integers("d2t", np.zeros((3, 3), np.int64), I64())}, "one row of ids"),
        (
            {"d2t": pack_integers("d2t", np.arange(9) + 155, I64()), "output.weight": HEAD},
            "d2t names token 163, ids are 0 to 159",
        ),
        (
            {"d2t": pack_integers("d2t", np.arange(9) - 1, I64()), "output.weight": HEAD},
            "d2t names token -1",
        ),
        (
            {"d2t": pack_integers("d2t", np.arange(9) // 2, I64()), "output.weight": HEAD},
            "d2t names token 0 twice",
        ),
        ({"output.weight": HEAD}, r"lm_head\.weight has shape \[9, 48\], expected \[160, 48\]"),
        ({"fc.scale": floats("fc.scale", 2)}, r"fc\.scale has shape"),
        (
            {"fc.scale": replace(floats("fc.scale", 1), data=np.float32([-1]).view(np.uint8))},
            r"fc\.scale is -1",
        ),
        ({"blk.0.attn_q.scale": floats("blk.0.attn_q.scale", 1)}, r"attn_q\.scale not used"),
        ({"rope_freqs.weight": floats("rope_freqs.weight", 8)}, "rope_freqs.* not used"),
    ],
)
def test_tensors_that_do_not_go_together(
    tensors: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    path = write_drafter(tmp_path / "d.gguf", made(), {}, tensors)
    with pytest.raises(CheckpointError, match=message) as caught:
        build(path)
    assert len(str(caught.value).splitlines()) == 1
