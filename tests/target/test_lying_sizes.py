"""Sizes that a configuration lies about are refused before anything is made of that size."""

import json
import shutil
import time
from pathlib import Path

import pytest

from draftwalk.draft.config import DrafterConfig
from draftwalk.errors import UserError
from draftwalk.models import open_model
from draftwalk.ops.torch import TorchOperations
from draftwalk.target.load import build_target
from support.models import CPU, DOUBLE, FIXTURES, drafter_checkpoint

HUGE = 2**31 - 2


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
@pytest.mark.parametrize("key", ["head_dim", "num_hidden_layers", "max_position_embeddings"])
def test_targets(name: str, key: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "targets" / name, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: HUGE}))
    start = time.process_time()
    with pytest.raises(UserError):
        build_target(open_model(folder), DOUBLE)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("key", ["head_dim", "num_hidden_layers", "block_size"])
@pytest.mark.parametrize("interleaved", [True, False])
def test_drafters(key: str, interleaved: bool) -> None:
    made = drafter_checkpoint(160, 48, (0, 1), selector=True)
    config = {**made.config, key: HUGE, "is_neox_style": not interleaved}
    own = dict(made.config["dflash_config"])  # type: ignore[call-overload]
    own.pop(key, None)
    start = time.process_time()
    with pytest.raises(UserError, match=key):
        DrafterConfig.read({**config, "dflash_config": own}, "made")
    assert time.process_time() - start < 1


def test_a_long_context_is_no_matter_when_less_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "targets" / "llama", folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = HUGE
    (folder / "config.json").write_text(json.dumps(config))
    ops = TorchOperations(CPU, DOUBLE.dtype)
    assert build_target(open_model(folder), ops, 64).context == 64
