"""What a target's configuration may say: all else that could change results is refused by name."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from draftwalk.errors import CheckpointError
from draftwalk.models import open_model
from draftwalk.target.load import read_blueprint
from draftwalk.target.rope import rope_fields, rope_frequencies
from draftwalk.weights.config_keys import HARMLESS, NEUTRAL
from draftwalk.weights.fields import Fields
from support.models import FIXTURES, MadeCheckpoint

TARGETS = sorted(path.name for path in (FIXTURES / "targets").iterdir() if path.is_dir())


def changed(name: str, changes: Mapping[str, object]) -> MadeCheckpoint:
    """A recorded target with other configuration keys."""
    recorded = open_model(FIXTURES / "targets" / name)
    config: dict[str, Any] = {**copy.deepcopy(dict(recorded.config)), **changes}
    return MadeCheckpoint(config, recorded.tensors, Path("m"))


def read(name: str, changes: Mapping[str, object]) -> str:
    """Everything that is understood, as text: tensors do not compare."""
    return str(read_blueprint(changed(name, changes))[0])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("logits_scaling", 8.0),
        ("residual_multiplier", 0.22),
        ("embedding_multiplier", 12.0),
        ("attention_multiplier", 0.01),
        ("clip_qkv", 6.0),
        ("num_local_experts", 8),
        ("rope_interleaved", True),
        ("some_new_setting", False),  # of what nobody knows, nobody knows what is neutral
        ("some_new_setting", {"a": 1}),
        ("some\nnew setting" * 20, 1),
    ],
)
def test_an_unknown_key_is_refused_by_name(name: str, key: str, value: object) -> None:
    shown = key if key.isidentifier() else ".*some.*"
    with pytest.raises(CheckpointError, match=f"m: key {shown} = .* not implemented") as caught:
        read(name, {key: value})
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400


def test_the_same_cap_is_known_to_one_and_refused_by_another() -> None:
    assert "softcap=30.0" in read("gemma3", {"final_logit_softcapping": 30.0})
    with pytest.raises(CheckpointError, match="final_logit_softcapping = 30"):
        read("llama", {"final_logit_softcapping": 30.0})
    assert read("llama", {"final_logit_softcapping": None}) == read("llama", {})


@pytest.mark.parametrize("name", TARGETS)
def test_keys_that_change_nothing(name: str) -> None:
    recorded = read(name, {})
    read_by_some = {"attn_logit_softcapping", "final_logit_softcapping"}
    neutral = {key: value for key, value in NEUTRAL.items() if key not in read_by_some}
    kept = {"model_type", "architectures"}
    harmless = dict.fromkeys(HARMLESS - kept, "whatever")
    assert read(name, {**neutral, **harmless, "some_new_setting": None}) == recorded


def test_several_are_named_together_but_not_endlessly() -> None:
    with pytest.raises(CheckpointError, match=r"key a = 1, b = 2, c = 3, d = 4 and 2 more is not"):
        read("qwen3", dict(zip("abcdef", range(1, 7), strict=True)))


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize(
    "changes",
    [
        {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
        {"layer_types": ["full_attention"]},
        {"use_sliding_window": True},
        {"hidden_act": "gelu"},
        {"quantization_config": {"bits": 4}},
        {"partial_rotary_factor": 0.5},
    ],
)
def test_parts_that_are_not_implemented(name: str, changes: dict[str, object]) -> None:
    (key,) = changes
    with pytest.raises(CheckpointError, match="quantised" if "quant" in key else key):
        read(name, changes)


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_a_window_that_is_switched_off_does_not_matter(name: str) -> None:
    assert read(name, {"sliding_window": 4096, "max_window_layers": 1}) == read(name, {})
    with pytest.raises(CheckpointError, match="sliding_window = 4096"):
        read("llama", {"sliding_window": 4096})


LINEAR = {"rope_type": "linear", "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_scaling": {**LINEAR, "attention_factor": 1.5}}, "attention_factor = 1.5"),
        ({"rope_scaling": {**LLAMA3, "beta_fast": 32}}, "beta_fast = 32"),
        ({"rope_scaling": {"factor": 4.0}}, "factor = 4.0"),
        ({"rope_scaling": {"rope_type": "default", "factor": 4.0}}, "factor = 4.0"),
        ({"rope_scaling": {**LINEAR, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"rope_scaling": LINEAR, "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn' is not implemented"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor is missing"),
        ({"rope_parameters": {"rope_theta": 1e4, "mscale": 2}}, "mscale = 2"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "full_attention"),
    ],
)
def test_a_setting_of_rope_that_its_type_does_not_know(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        read("llama", changes)
    assert str(caught.value).startswith("m rope: ")


def test_settings_of_rope_that_change_nothing() -> None:
    for changes in (
        {"rope_scaling": {"rope_type": "default", "original_max_position_embeddings": 64}},
        {"partial_rotary_factor": 1.0},
        {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "mscale": None}},
    ):
        assert read("llama", changes) == read("llama", {})


NESTED = {
    "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5},
    "sliding_attention": {"rope_type": "default"},
}


def frequencies(changes: Mapping[str, object]) -> tuple[torch.Tensor, ...]:
    return read_blueprint(changed("gemma3", changes))[0].ropes


def plain(theta: float) -> torch.Tensor:
    return rope_frequencies(Fields({"rope_theta": theta}, "m"), 16)


def test_ropes_of_two_kinds_of_layers_do_not_mix() -> None:
    bare = {"rope_theta": None, "rope_local_base_freq": None, "rope_scaling": None}
    full, local = frequencies(bare)
    assert full.equal(plain(1e6))
    assert local.equal(plain(1e4))
    full, local = frequencies({**bare, "rope_parameters": NESTED})
    assert full.equal(plain(5e5) / 2)
    assert local.equal(plain(1e4))
    # Old keys beside new ones: what is said for one kind of layer does not reach the other.
    full, local = frequencies({"rope_parameters": NESTED})
    assert full.equal(plain(5e5) / 2)
    assert local.equal(plain(1e3))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({**NESTED, "chunked_attention": {}}, "rope_parameters.chunked_attention"),
        ({**NESTED, "rope_theta": 1e4}, "rope_parameters.rope_theta"),
        ({**NESTED, "full_attention": {"rope_theta": 1e6, "mscale": 1}}, "mscale = 1"),
        ({**NESTED, "sliding_attention": {"factor": 2.0}}, "factor = 2.0"),
        ({**NESTED, "sliding_attention": 3}, "sliding_attention is 3"),
    ],
)
def test_a_table_of_ropes_is_read_whole(table: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read("gemma3", {"rope_parameters": table})


def test_a_layer_pattern_under_either_name() -> None:
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        changes = {"sliding_window_pattern": None, "layer_types": None, key: 2}
        plans = read_blueprint(changed("gemma3", changes))[0].layers
        assert [plan.window for plan in plans] == [8, None, 8, None, 8, None, 8]


def test_rope_fields_do_not_need_a_whole_configuration() -> None:
    rope = rope_fields(Fields({"rope_theta": 7.0, "rope_scaling": LINEAR}, "m"))
    assert rope_frequencies(rope, 4).tolist() == [0.25, 7.0**-0.5 / 4]
    assert rope_frequencies(rope_fields(Fields({}, "m")), 4, 7.0).tolist() == [1.0, 7.0**-0.5]
