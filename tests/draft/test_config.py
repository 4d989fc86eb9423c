"""What a drafter's configuration may say; what is not implemented is refused by name."""

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from draftwalk.draft.config import DrafterConfig
from draftwalk.draft.load import build_drafter, read_config
from draftwalk.errors import CheckpointError
from draftwalk.window import Calibration
from support.models import DOUBLE, MadeCheckpoint, drafter_checkpoint, target

MADE = {kind: drafter_checkpoint(160, 48, (0, 1), kind) for kind in (True, False)}


def changed(
    top: Mapping[str, object] | None = None,
    nested: Mapping[str, object] | None = None,
    selector: bool = True,
) -> MadeCheckpoint:
    """A drafter with other configuration keys; `...` removes one."""
    config: dict[str, Any] = copy.deepcopy(dict(MADE[selector].config))
    for table, changes in ((config, top or {}), (config["dflash_config"], nested or {})):
        table.update(changes)
        for key in [key for key, value in changes.items() if value is ...]:
            del table[key]
    return replace(MADE[selector], config=config)


def read(top=None, nested=None, selector: bool = True) -> DrafterConfig:
    return read_config(changed(top, nested, selector))


REFUSED: list[tuple[str, object]] = [
    ("projector_type", "domino"),
    ("sample_from_anchor", True),
    ("has_confidence_head", True),
    ("markov_head_type", "vanilla"),
    ("attention_value_scale", 2.0),
    ("dflash_context_residual", True),
    ("quantization_config", {"quant_method": "fp8"}),
    ("speculators_model_type", "dflash2"),
]


@pytest.mark.parametrize(("key", "value"), REFUSED)
@pytest.mark.parametrize("nested", [True, False])
def test_parts_that_are_not_implemented(nested: bool, key: str, value: object) -> None:
    name = f"dflash_config.{key}" if nested else key
    with pytest.raises(CheckpointError, match=f"made-for-a-test: key {name} ") as caught:
        read(nested={key: value}) if nested else read(top={key: value})
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, None) for key, _ in REFUSED),
        *((key, False) for key, _ in REFUSED[:4]),
        *(("attention_value_scale", 1.0), ("draft_vocab_size", 160), ("is_neox_style", True)),
    ],
)
def test_the_same_keys_where_they_change_nothing(key: str, value: object) -> None:
    assert str(read(nested={key: value})) == str(read())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_size", 1),
        ("block_size", 0),
        ("block_size", "8"),
        ("block_size", True),
        ("mask_token_id", ...),
        ("mask_token_id", 160),
        ("mask_token_id", -1),
        ("target_layer_ids", []),
        ("target_layer_ids", [-1]),
        ("target_layer_ids", 3),
        ("final_logit_softcapping", -1.0),
        ("final_logit_softcapping", float("nan")),
        ("output_multiplier", "1"),
        ("output_multiplier", 0.0),
        ("input_embedding_scale", -1.0),
        ("attention_sink_bias", 0.5),
        ("draft_vocab_size", 161),
        ("conv_kernel_size", ...),
        ("conv_group_size", ...),
        ("selector_rank", ...),
        ("selector_top_k", ...),
        ("selector_top_k", 161),
        ("conv_group_size", 7),
        ("conv_kernel_size", 0),
    ],
)
def test_own_keys_out_of_range(key: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=key):
        read(nested={key: value})


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"layer_types": ["full_attention"]}, "layer_types names 1 of 2"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
        ({"layer_types": ["sliding_attention"] * 2, "sliding_window": None}, "sliding_window"),
        (
            {"layer_types": ["sliding_attention"] * 2, "use_sliding_window": False},
            "use_sliding_window",
        ),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
        ({"rope_scaling": {"type": "linear"}}, "factor"),
        ({"hidden_size": ...}, "hidden_size"),
        ({"vocab_size": ...}, "vocab_size"),
        ({"head_dim": 15}, "head_dim 15"),
        ({"num_attention_heads": 3, "num_key_value_heads": 2}, "3 heads"),
        ({"max_position_embeddings": 0}, "max_position_embeddings"),
        ({"is_causal": 1}, "is_causal"),
        ({"dflash_config": 3}, "dflash_config"),
    ],
)
def test_keys_of_any_decoder_out_of_range(top: Mapping[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(top)


def test_a_sliding_window_of_mimo_style_needs_its_size() -> None:
    with pytest.raises(CheckpointError, match="swa_window_size"):
        read(nested={"use_swa": True})
    config = read(nested={"use_swa": True, "swa_window_size": 9})
    assert config.windows == (9, 9)
    assert config.causal == (False, False)


def test_what_is_nested_comes_before_what_is_at_the_top() -> None:
    assert read(top={"block_size": 4}).block == 6
    assert read(top={"block_size": 4}, nested={"block_size": ...}).block == 4
    assert read(top={"block_size": 4}, nested={"block_size": None}).block == 4
    assert read(nested={"block_size": ...}).block == 16
    # Sizes of the decoder are not looked for in the nested table, so they must not stand there.
    with pytest.raises(CheckpointError, match=r"key dflash_config\.hidden_size = 64 is not"):
        read(nested={"hidden_size": 64})


@pytest.mark.parametrize(
    ("top", "nested", "name"),
    [
        ({"logits_scaling": 8.0}, {}, "logits_scaling"),
        ({"mlp_bias": True}, {}, "mlp_bias"),
        ({"shift_label": False}, {}, "shift_label"),
        ({}, {"logits_scaling": 8.0}, r"dflash_config\.logits_scaling"),
        ({}, {"gru_hidden_dim": 64}, r"dflash_config\.gru_hidden_dim"),
        ({}, {"is_neox_style": False}, r"dflash_config\.is_neox_style"),
        ({}, {"rope_theta": 1e6}, r"dflash_config\.rope_theta"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "mscale": 1}}, {}, "mscale"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "attn": {"a": 1}}}, {}, "attn"),
    ],
)
def test_keys_nobody_reads_are_refused_by_name(
    top: Mapping[str, object], nested: Mapping[str, object], name: str
) -> None:
    with pytest.raises(CheckpointError, match=f"key {name} = .* is not implemented"):
        read(top, nested)


def test_what_a_drafter_carries_beside_itself_is_passed_over() -> None:
    beside = {
        **{"architectures": ["Any"], "dtype": "bfloat16", "auto_map": {}, "initializer_range": 0.1},
        **{"tie_word_embeddings": True, "num_target_layers": 30, "max_window_layers": 2},
        **{"mlp_bias": False, "sliding_window": 99, "use_sliding_window": False, "use_cache": True},
    }
    assert str(read(beside, {"mask_token_id": 3, "block_size": 6})) == str(read())
    # Where both tables say something, the one that is not looked at does not count as unread.
    both = {"block_size": 4, "causal": True, "is_causal": None}
    assert read(both, {"causal": False}).causal == (False, False)


def test_causality() -> None:
    mixed = {"layer_types": ["sliding_attention", "full_attention"], "is_causal": None}
    assert read(mixed).causal == (True, False)
    assert read({**mixed, "is_causal": False}).causal == (False, False)
    assert read({**mixed, "is_causal": True}).causal == (True, True)
    assert read(mixed, {"causal": False}).causal == (False, False)
    assert read({**mixed, "is_causal": True}, {"causal": False}).causal == (True, True)


def test_taps_that_are_not_named() -> None:
    for layers, depth, taps in ((28, 1, (14,)), (36, 5, (1, 9, 17, 25, 33)), (64, 2, (1, 61))):
        top = {
            "num_hidden_layers": depth,
            "num_target_layers": layers,
            "layer_types": None,
        }
        made = changed(top, {"target_layer_ids": ...})
        assert DrafterConfig.read(made.config, "x").taps == taps
    with pytest.raises(CheckpointError, match="num_target_layers"):
        read(nested={"target_layer_ids": ...})
    with pytest.raises(CheckpointError, match="target_layer_ids"):
        read({"num_target_layers": 3}, {"target_layer_ids": ...})


def test_the_kind_is_told_by_the_checkpoint_and_must_be_told_twice() -> None:
    selector_keys = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
    with pytest.raises(CheckpointError, match=r"hidden_projection\.weight is a DFlash2 drafter's"):
        read(nested=dict.fromkeys(selector_keys, ...))
    values = {key: MADE[True].config["dflash_config"][key] for key in selector_keys}  # type: ignore[index]
    with pytest.raises(CheckpointError, match="selector_rank is a DFlash2 drafter's"):
        read(nested=values, selector=False)
    # What a file calls its architecture decides nothing.
    for name in ("DFlashDraftModel", "DFlash2DraftModel", "Whatever"):
        for selector in (True, False):
            made = replace(changed(selector=selector), architecture=name)
            assert (read_config(made).selector is not None) == selector


@pytest.mark.parametrize("selector", [True, False])
def test_every_tensor_is_needed_and_none_is_left(selector: bool) -> None:
    model = target("qwen3")

    def build(tensors: Mapping[str, object]) -> None:
        made = replace(MADE[selector], tensors=tensors)
        build_drafter(made, DOUBLE, model.tables, model.depth, 100)

    whole = dict(MADE[selector].tensors)
    build(whole)
    for name in whole:
        if name == "candidate_selector.hidden_projection.weight":
            continue  # that it is missing makes it another kind
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            build({key: value for key, value in whole.items() if key != name})
        with pytest.raises(CheckpointError, match=r"more\.weight not used"):
            build({**whole, "more.weight": whole[name]})
        if len(whole[name].shape) > 1:
            with pytest.raises(CheckpointError, match="has shape"):
                build({**whole, name: replace(whole[name], shape=whole[name].shape[::-1])})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"bias": [0.0] * 4, "slope": [1.0] * 5}, "4 and 5 values for 5 drafted tokens"),
        ({"bias": [0.0] * 5}, r"draftwalk\.window\.slope is missing"),
        ({"bias": [0.0] * 5, "slope": [math.nan] * 5}, r"window\.slope is .* expected"),
        ({"bias": ["a"] * 5, "slope": [1.0] * 5}, r"window\.bias is"),
        ({"bias": [0.0] * 5, "slope": [-1.0] * 5}, "slope has -1"),
        ({"bias": [0.0] * 5, "slope": [1.0] * 5, "heat": math.inf}, r"window\.heat is inf"),
        ({"bias": [0.0] * 5, "slope": [1.0] * 5, "labels": -1}, r"window\.labels is -1"),
        ([0.0] * 5, "window is"),
    ],
)
def test_a_calibration_must_make_sense(table: object, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read({"draftwalk": {"window": table}})


def test_a_calibration_is_read() -> None:
    table = {"bias": [0.5] * 5, "slope": [1] * 5, "heat": -0.5, "labels": 7}
    found = read({"draftwalk": {"window": table}}).calibration
    assert found == Calibration((0.5,) * 5, (1.0,) * 5, -0.5, 7)
    assert read({"draftwalk": {"window": {k: table[k] for k in ("bias", "slope")}}}).calibration
    assert read().calibration is None
