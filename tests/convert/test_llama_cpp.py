"""llama.cpp drafts the same with the files we write, and we with the files its converter writes.

Recorded by referee/interchange.py: llama.cpp was given features of a target and drafted a block.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.convert import Options, convert
from draftwalk.convert.same import differences
from draftwalk.draft import DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.dflash2 import DFlash2
from draftwalk.draft.load import build_drafter, read_config
from draftwalk.models import open_model
from draftwalk.ops.torch import DenseMatrix, TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.target import SharedTables
from draftwalk.verify.noise import Noise
from draftwalk.weights import Checkpoint
from support.drafter_folders import target_of
from support.interchange_cases import (
    ANCHOR,
    BLOCK,
    CASES,
    CONTEXT,
    DEPTH,
    Case,
    features,
    tables,
    write,
)
from support.models import CPU, FIXTURES, hidden_rows

RUNS = [(case, outtype) for case in CASES for outtype in case.types]
CONVERTED = sorted(path.stem for path in (FIXTURES / "llama_cpp_converted").glob("*.gguf"))


@pytest.fixture(scope="module")
def recorded() -> dict[str, NDArray[np.generic]]:
    with np.load(FIXTURES / "llama_cpp_drafters.npz") as arrays:
        return dict(arrays)


def built(checkpoint: Checkpoint, case: Case) -> BlockDrafter:
    """The drafter in float32, after the recorded features."""
    embedding, head = (DenseMatrix(torch.from_numpy(table)) for table in tables(case))
    ops = TorchOperations(CPU, torch.float32)
    drafter = build_drafter(checkpoint, ops, SharedTables(embedding, head), DEPTH, 512)
    drafter.state.open(0)
    rows = Rows.lay_out([Rowset(0, [0] * CONTEXT, 0, "none")], CPU)
    drafter.observe(rows, torch.from_numpy(features(case)), {0: CONTEXT})
    return drafter


def request() -> DraftRequest:
    return DraftRequest(0, [0] * CONTEXT + [ANCHOR], BLOCK - 1, Sampling(), Noise(1))


def assert_near(mine: Tensor, theirs: Tensor) -> None:
    """Equal but for the rounding of sums in fp32."""
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def in_order_of(ids: Tensor, mine: Tensor) -> Tensor:
    """Where each of `ids` stands in `mine`."""
    return torch.stack([(mine == one).nonzero()[0, 0] for one in ids])


def title(run: tuple[Case, str]) -> str:
    return f"{run[0].name}-{run[1]}"


@pytest.mark.parametrize("run", [run for run in RUNS if run[0].selector], ids=title)
def test_candidates_and_scores(
    run: tuple[Case, str], recorded: dict[str, NDArray[np.generic]], tmp_path: Path
) -> None:
    case, outtype = run
    drafter = built(open_model(write(case, outtype, tmp_path / "x.gguf")), case)
    assert isinstance(drafter, DFlash2)
    mine, scores = drafter.draft([request()], BLOCK)
    ids = torch.from_numpy(recorded[f"{case.name}.{outtype}.candidates"].astype(np.int64))
    theirs = torch.from_numpy(recorded[f"{case.name}.{outtype}.scores"].astype(np.float32))
    assert torch.equal(mine.sort(dim=-1).values, ids.sort(dim=-1).values)
    before = torch.zeros(ids.shape[-1], dtype=torch.int64)
    for n in range(len(ids)):
        order = in_order_of(ids[n], mine[n])
        assert_near(scores[n].float()[before][:, order], theirs[n])
        before = order


@pytest.mark.parametrize("run", [run for run in RUNS if not run[0].selector], ids=title)
def test_logits(
    run: tuple[Case, str], recorded: dict[str, NDArray[np.generic]], tmp_path: Path
) -> None:
    case, outtype = run
    checkpoint = open_model(write(case, outtype, tmp_path / "x.gguf"))
    drafter = built(checkpoint, case)
    logits = drafter.logits(hidden_rows(drafter, [request()], BLOCK)).float()
    theirs = torch.from_numpy(recorded[f"{case.name}.{outtype}.logits"].astype(np.float32))
    known = torch.arange(theirs.shape[-1])
    if case.reduced:  # rows are fewer than tokens, of which the others have no chance
        known = torch.from_numpy(checkpoint.tensors["d2t"].integers())
        known += torch.arange(len(known))
    assert torch.equal(theirs[0].isfinite().nonzero()[:, 0], known)
    assert_near(logits, theirs[:, known])


@pytest.mark.parametrize("name", CONVERTED)
def test_files_of_its_converter_are_the_folder_they_were_made_from(name: str) -> None:
    file = open_model(FIXTURES / "llama_cpp_converted" / f"{name}.gguf")
    folder = open_model(FIXTURES / "drafters" / name)
    assert differences(read_config(file), read_config(folder)) == []
    assert file.tensors.keys() == folder.tensors.keys()
    for tensor, raw in folder.tensors.items():
        assert np.array_equal(file.tensors[tensor].unpack(), raw.unpack()), tensor


@pytest.mark.parametrize("name", CONVERTED)
def test_files_of_its_converter_become_that_folder_again(name: str, tmp_path: Path) -> None:
    source = FIXTURES / "llama_cpp_converted" / f"{name}.gguf"
    folder = open_model(FIXTURES / "drafters" / name)
    width, vocabulary = (folder.config[key] for key in ("hidden_size", "vocab_size"))
    target = target_of(width, vocabulary, folder.config["num_target_layers"])  # type: ignore[arg-type]
    convert(open_model(source), tmp_path / "x", "hf", Options(target=target))
    back = open_model(tmp_path / "x")
    assert differences(read_config(back), read_config(folder)) == []
    assert back.config["num_target_layers"] == folder.config["num_target_layers"]
    for tensor, raw in folder.tensors.items():
        assert back.tensors[tensor].format is raw.format, tensor
        assert np.array_equal(back.tensors[tensor].data, raw.data), tensor


def test_there_are_files_of_its_converter() -> None:
    assert {name.partition("-")[0] for name in CONVERTED} == {"dflash", "dflash2"}
