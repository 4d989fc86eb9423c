from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from draftwalk.errors import CheckpointError
from draftwalk.weights import (
    Dialect,
    GgufCheckpoint,
    GgufFile,
    Key,
    RawTensor,
    TensorSource,
    Typed,
    name_map,
    open_checkpoint,
    permute_rows,
    write_gguf,
)
from draftwalk.weights.fields import COUNT
from draftwalk.weights.gguf_values import Value
from support.gguf_bytes import (
    BOOL,
    FLOAT32,
    INT32,
    STRING,
    UINT32,
    file,
    scalar,
)
from support.toy_checkpoint import METADATA, TOY, write_toy

Changes = dict[str, Value | Typed | None]


def opened(tmp_path: Path, changes: Changes, dialect: Dialect = TOY) -> GgufCheckpoint:
    return GgufCheckpoint(GgufFile(write_toy(tmp_path / "toy.gguf", changes)), dialect)


def test_configuration_under_hugging_face_keys(tmp_path: Path) -> None:
    config = opened(tmp_path, {}).config
    assert config == {
        "architectures": ["ToyForCausalLM"],
        "model_type": "toy",
        "num_hidden_layers": 2,
        "max_position_embeddings": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "vocab_size": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "mlp_bias": False,
    }


def test_what_files_may_leave_out(tmp_path: Path) -> None:
    config = opened(
        tmp_path,
        {"toy.attention.head_count_kv": None, "toy.rope.freq_base": None, "toy.vocab_size": None},
    ).config
    assert config["num_key_value_heads"] == 4
    assert config["rope_theta"] == 10000.0
    assert config["vocab_size"] == 6


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"toy.rope.scaling.factor": 8.0}, {"rope_type": "linear", "factor": 8.0}),
        ({"toy.rope.scale_linear": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ({"toy.rope.scaling.type": "linear", "toy.rope.scaling.factor": 1.0}, None),
        ({"toy.rope.scaling.type": "none", "toy.rope.scaling.factor": 2.0}, None),
        ({"toy.rope.scaling.type": "none", "toy.rope.scaling.finetuned": True}, None),
        (
            {
                "toy.rope.scaling.type": "yarn",
                "toy.rope.scaling.factor": 4.0,
                "toy.rope.scaling.original_context_length": 32,
            },
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
        ),
    ],
)
def test_rope_scaling(tmp_path: Path, changes: Changes, expected: dict[str, object] | None) -> None:
    assert opened(tmp_path, changes).config["rope_scaling"] == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"toy.block_count": None}, r"key toy\.block_count is missing"),
        ({"toy.attention.layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon is missing"),
        ({"toy.block_count": 0}, "expected a number of layers"),
        ({"toy.block_count": 4_000_000_000}, "expected a number of layers"),
        ({"toy.attention.head_count": 5}, "is no multiple"),
        ({"toy.attention.head_count": [4, 2]}, "the same for every layer"),
        ({"toy.feed_forward_length": [64, 64, 64]}, "has 3 values for 2 layers"),
        ({"toy.attention.value_length": 16}, "value_length is 16 but heads have 8"),
        ({"toy.rope.dimension_count": 4}, "dimension_count is 4 but heads have 8"),
        ({"toy.attention.causal": False}, "expected true, the only value"),
        ({"toy.expert_count": 8}, "expected 0, the only value"),
        ({"toy.nextn_predict_layers": 1}, "expected 0, the only value"),
        ({"toy.rope.freq_base": -1.0}, "expected a positive number"),
        ({"toy.rope.freq_base": float("nan")}, "expected a positive number"),
        ({"toy.vocab_size": 7}, "has 7 tokens but token_embd.weight 6 rows"),
        ({"toy.logit_scale": 2.0}, r"toy\.logit_scale is not implemented for this architecture"),
        ({"toy.attention.sliding_window": 8}, r"toy\.attention\.sliding_window is not implemented"),
        ({"toy.rope.scaling.yarn_log_multiplier": 0.1}, "yarn_log_multiplier is not implemented"),
        ({"general.type": "adapter"}, "holds a 'adapter', not a model"),
        ({"general.type": 5}, "expected a text"),
        ({"split.count": 3}, "one of 3 parts"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, changes: Changes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        opened(tmp_path, changes)
    assert str(caught.value).startswith("toy.gguf: ")


def test_settings_of_no_effect_are_accepted(tmp_path: Path) -> None:
    changes: Changes = {
        "toy.expert_count": 0,
        "toy.attention.causal": True,
        "toy.attention.key_length": 8,
        "toy.attention.value_length": 8,
        "toy.rope.dimension_count": 8,
        "toy.attention.head_count": [4, 4],
        "toy.tensor_data_layout": "Meta AI original pth",
        "other.logit_scale": 2.0,
    }
    plain = opened(tmp_path, {}).config
    assert opened(tmp_path, changes).config == plain


KNOWN_KEYS = [key for key in METADATA if key.startswith("toy.")]
WRONG_TYPES = {BOOL: 1, STRING: "8", FLOAT32: 8.0, INT32: 8}


@pytest.mark.parametrize("name", KNOWN_KEYS)
@pytest.mark.parametrize("kind", WRONG_TYPES)
def test_each_key_with_each_wrong_type(tmp_path: Path, name: str, kind: int) -> None:
    is_number = isinstance(METADATA[name], float)
    if (kind in (FLOAT32, INT32) and is_number) or (kind == INT32 and not is_number):
        return  # a whole number of another width, or for a number, is no confusion
    path = tmp_path / "toy.gguf"
    keys = [scalar("general.architecture", STRING, "toy"), scalar(name, kind, WRONG_TYPES[kind])]
    keys += [
        scalar(key, FLOAT32 if isinstance(value, float) else UINT32, value)
        for key, value in METADATA.items()
        if key.startswith("toy.") and key != name and isinstance(value, int | float)
    ]
    path.write_bytes(file(keys))
    with pytest.raises(CheckpointError, match="expected a") as caught:
        GgufCheckpoint(GgufFile(path), TOY)
    assert name in str(caught.value)


def test_canonical_names_and_leftovers(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path, {})
    assert list(checkpoint.tensors) == [
        "model.embed_tokens.weight",
        "model.norm.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.1.mlp.down_proj.weight",
        "d2t",
    ]
    source = TensorSource(checkpoint.tensors, "toy.gguf")
    for name in list(checkpoint.tensors)[:-1]:
        source.take(name, checkpoint.tensors[name].shape)
    with pytest.raises(CheckpointError, match=r"toy\.gguf: d2t not used by this architecture"):
        source.finish()


def test_a_dialect_adds_replaces_derives_and_adapts(tmp_path: Path) -> None:
    def adapt(raw: RawTensor, config: object) -> RawTensor:
        is_q = raw.name.endswith("q_proj.weight")
        return permute_rows(raw, np.arange(31, -1, -1)) if is_q else raw

    dialect = replace(
        TOY,
        tensors={"d2t": "d2t_map", "blk.{i}.ffn_down.weight": "model.layers.{i}.down.weight"},
        keys={"window": Key(COUNT, "sliding_window", required=True)},
        fixed={"hidden_act": "silu"},
        derive=lambda file, config: {"doubled": [config["hidden_size"]] * len(file.tensors)},
        adapt=adapt,
    )
    with pytest.raises(CheckpointError, match=r"toy\.window is missing"):
        opened(tmp_path, {}, dialect)
    checkpoint = opened(tmp_path, {"toy.window": 16}, dialect)
    assert checkpoint.config["sliding_window"] == 16
    assert checkpoint.config["hidden_act"] == "silu"
    assert checkpoint.config["doubled"] == [32] * 6
    assert "model.layers.1.down.weight" in checkpoint.tensors
    assert "d2t_map" in checkpoint.tensors
    plain = opened(tmp_path, {}).tensors["model.layers.0.self_attn.q_proj.weight"].unpack()
    turned = checkpoint.tensors["model.layers.0.self_attn.q_proj.weight"].unpack()
    assert np.array_equal(turned, plain[::-1])


def test_two_names_for_one_tensor_cannot_both_be_there(tmp_path: Path) -> None:
    dialect = replace(TOY, tensors={"d2t": "model.norm.weight"})
    with pytest.raises(CheckpointError, match=r"tensor d2t is a second model\.norm\.weight"):
        opened(tmp_path, {}, dialect)


@pytest.mark.parametrize(
    ("gguf", "canonical"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output.weight", "lm_head.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("rope_freqs.weight", "rope_freqs.weight"),
        ("blk.0.attn_q.bias", "model.layers.0.self_attn.q_proj.bias"),
        ("blk.12.attn_k_norm.weight", "model.layers.12.self_attn.k_norm.weight"),
        ("blk.101.ffn_norm.weight", "model.layers.101.post_attention_layernorm.weight"),
    ],
)
def test_names_translate_both_ways(gguf: str, canonical: str) -> None:
    names = name_map(TOY)
    assert names.canonical(gguf) == canonical
    assert names.gguf(canonical) == gguf


@pytest.mark.parametrize("name", ["blk.01.attn_q.weight", "blk.attn_q.weight", "blk.0.x", "{i}"])
def test_unknown_names_have_no_translation(name: str) -> None:
    assert name_map(TOY).canonical(name) is None
    assert name_map(TOY).gguf(name) is None


def test_opens_by_content_and_names_unknown_architectures(tmp_path: Path) -> None:
    path = write_toy(tmp_path / "no-suffix")
    assert open_checkpoint(path, {"toy": TOY}).container == "gguf"
    with pytest.raises(CheckpointError, match=r"'toy' is not implemented.*did you mean toy2"):
        open_checkpoint(path, {"toy2": TOY, "other": TOY})
    with pytest.raises(CheckpointError, match="there is no file or folder"):
        open_checkpoint(tmp_path / "none", {"toy": TOY})
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        open_checkpoint(tmp_path, {"toy": TOY})
    path.write_bytes(b"text")
    with pytest.raises(CheckpointError, match="not a GGUF file"):
        open_checkpoint(path, {"toy": TOY})


def test_folder_with_a_gguf_file_says_so(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf", METADATA, [])
    with pytest.raises(CheckpointError, match=r"give the file: .*a\.gguf"):
        open_checkpoint(tmp_path, {"toy": TOY})
