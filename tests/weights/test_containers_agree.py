"""GGUF and safetensors files of one model come out with the same settings and the same tensors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from draftwalk.models import dialects
from draftwalk.weights import GgufCheckpoint, SafetensorsFolder, open_checkpoint

FIXTURES = Path(__file__).parent.parent / "fixtures" / "targets"
MODELS = sorted(path.parent.name for path in FIXTURES.glob("*/model.gguf"))
SETTINGS = (
    "model_type",
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
    "rms_norm_eps",
    "tie_word_embeddings",
    "sliding_window",
    "query_pre_attn_scalar",
)


def both(name: str) -> tuple[GgufCheckpoint, SafetensorsFolder]:
    gguf = open_checkpoint(FIXTURES / name / "model.gguf", dialects())
    folder = open_checkpoint(FIXTURES / name, dialects())
    assert isinstance(gguf, GgufCheckpoint)
    assert isinstance(folder, SafetensorsFolder)
    return gguf, folder


def theta(config: dict[str, object], layer_type: str) -> object:
    """The rope base in either spelling of config.json."""
    newer = config.get("rope_parameters")
    if not isinstance(newer, dict):
        older = {"full_attention": "rope_theta", "sliding_attention": "rope_local_base_freq"}
        return config[older[layer_type]]
    return newer.get(layer_type, newer)["rope_theta"]


@pytest.mark.parametrize("name", MODELS)
def test_settings(name: str) -> None:
    gguf, folder = both(name)
    stated = json.loads((FIXTURES / name / "config.json").read_text())
    assert folder.config == stated
    assert gguf.architecture == stated["architectures"][0]
    compared = [key for key in SETTINGS if stated.get(key) is not None]
    assert len(compared) >= 10
    for key in compared:
        assert gguf.config[key] == stated[key], key
    assert gguf.config["rope_theta"] == theta(stated, "full_attention")
    if "rope_local_base_freq" in gguf.config:
        assert gguf.config["rope_local_base_freq"] == theta(stated, "sliding_attention")


@pytest.mark.parametrize("name", MODELS)
def test_rope_scaling(name: str) -> None:
    """Linear scaling is a setting in both; Llama 3's is a tensor in GGUF."""
    gguf, folder = both(name)
    stated = folder.config.get("rope_scaling")
    by_tensor = "rope_freqs.weight" in gguf.tensors
    assert by_tensor == (isinstance(stated, dict) and stated["rope_type"] == "llama3")
    assert gguf.config["rope_scaling"] == (None if by_tensor else stated)


@pytest.mark.parametrize("name", MODELS)
def test_tensors(name: str) -> None:
    gguf, folder = both(name)
    assert set(gguf.tensors) - {"rope_freqs.weight"} == set(folder.tensors) - {"lm_head.weight"} | (
        {"lm_head.weight"} & set(gguf.tensors)
    )
    for key in folder.tensors:
        if key not in gguf.tensors:
            assert key == "lm_head.weight"
            continue
        theirs = folder.tensors[key].unpack()
        if name.startswith("gemma3") and key.endswith("norm.weight"):
            theirs = theirs + np.float32(1)
        assert np.array_equal(gguf.tensors[key].unpack(), theirs), key
