"""GGUF drafters of forks, architecture `dflash-draft`."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from draftwalk.draft.load import read_config
from draftwalk.errors import CheckpointError
from draftwalk.models import open_model
from draftwalk.weights import RawTensor, Typed, write_gguf
from draftwalk.weights.gguf_values import Value
from support.drafts import tokens_of
from support.gguf_drafters import gguf_keys, gguf_tensors
from support.models import MadeCheckpoint, drafter_checkpoint

FORK = "dflash-draft"
RENAMED = {
    "fc.weight": "dflash_fc.weight",
    "enc.output_norm.weight": "dflash_hidden_norm.weight",
}


def made(taps: tuple[int, ...] = (0, 2)) -> MadeCheckpoint:
    one = drafter_checkpoint(160, 48, taps, selector=False)
    return replace(one, config={**one.config, "is_causal": False})


def write(
    path: Path, one: MadeCheckpoint, changes: dict[str, Value | Typed | None] | None = None
) -> Path:
    keys = {key.replace("dflash.", f"{FORK}."): value for key, value in gguf_keys(one).items()}
    own = one.config["dflash_config"]
    assert isinstance(own, dict)
    del keys[f"{FORK}.target_layers"], keys[f"{FORK}.block_size"]
    keys |= {
        "general.architecture": FORK,
        f"{FORK}.dflash.block_size": own["block_size"],
        f"{FORK}.dflash.mask_token_id": own["mask_token_id"],
        f"{FORK}.dflash.target_layer_ids": own["target_layer_ids"],
        f"{FORK}.dflash.n_target_features": 48 * len(own["target_layer_ids"]),
    }
    del keys["tokenizer.ggml.mask_token_id"]
    whole = {**keys, **{f"{FORK}.{key}": value for key, value in (changes or {}).items()}}
    tensors: list[RawTensor] = [
        replace(raw, name=RENAMED.get(name, name)) for name, raw in gguf_tensors(one).items()
    ]
    write_gguf(path, {k: v for k, v in whole.items() if v is not None}, tensors)
    return path


def test_a_file_is_its_folder_and_says_how_its_taps_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "d.gguf", made())
    with pytest.warns(UserWarning, match=r"d\.gguf: target_layer_ids is read as counted from 0"):
        opened = open_model(path)
    assert str(read_config(opened)) == str(read_config(made()))
    assert tokens_of(opened) == tokens_of(made())


def test_the_usual_spread_tells_the_base(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="counted from 0"):
        opened = open_model(write(tmp_path / "d.gguf", made((1, 9, 17, 25, 33))))
    assert read_config(opened).taps == (1, 9, 17, 25, 33)
    with pytest.raises(CheckpointError, match=r"target_layer_ids is \[2, 10, .* counted from 0 or"):
        open_model(write(tmp_path / "e.gguf", made((2, 10, 18, 26, 34))))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dflash.target_layer_ids": None}, r"dflash\.target_layer_ids is missing"),
        ({"dflash.block_size": None}, r"dflash\.block_size is missing"),
        ({"dflash.mask_token_id": None}, r"tokenizer\.ggml\.mask_token_id is missing"),
        ({"dflash.n_target_features": 95}, "n_target_features is 95, dflash_fc.weight takes 96"),
        ({"dflash.n_target_layers": 3}, "n_target_layers is 3"),
        ({"dflash.selector_rank": 3}, r"dflash\.selector_rank is not implemented"),
        ({"dflash.target_layer_ids": [1, 2, 3]}, r"fc\.weight has shape"),
    ],
)
def test_what_is_wrong_is_named(
    changes: dict[str, Value | Typed | None], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "d.gguf", made(), changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CheckpointError, match=message):
            read_config(open_model(path))
