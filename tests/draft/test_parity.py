"""Drafters equal the public `dflash` package in fp32, on random checkpoints of many shapes."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from draftwalk.draft import DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.dflash2 import DFlash2
from draftwalk.draft.load import build_drafter
from draftwalk.models import open_model
from draftwalk.ops.torch import DenseMatrix, TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.target import SharedTables
from draftwalk.verify.distribution import candidate_support
from draftwalk.verify.noise import Noise
from support.models import hidden_rows

FIXTURES = Path(__file__).parent.parent / "fixtures" / "drafters"
CASES = sorted(path.name for path in FIXTURES.iterdir())
CPU = torch.device("cpu")
DEPTH = 1000  # the fixtures' targets are not there; any tap is in range
NEAR = {"rtol": 1e-4, "atol": 1e-4}


class Case:
    """One recorded checkpoint with its inputs and outputs."""

    def __init__(self, name: str) -> None:
        self.case = json.loads((FIXTURES / name / "case.json").read_text())
        self.expected = load_file(FIXTURES / name / "expected.safetensors")
        embedding = DenseMatrix(self.expected["target.embedding"].float())
        head = self.expected.get("target.head")
        tables = SharedTables(embedding, embedding if head is None else DenseMatrix(head.float()))
        ops = TorchOperations(CPU, torch.float32)
        self.drafter: BlockDrafter = build_drafter(
            open_model(FIXTURES / name), ops, tables, DEPTH, 10_000
        )
        for sequence in range(len(self.case["sequences"])):
            self.drafter.state.open(sequence)

    def value(self, sequence: int, turn: int, name: str) -> Tensor:
        return self.expected[f"{sequence}.{turn}.{name}"]

    def observe(self, turn: int) -> None:
        """Injects the features of a round, all sequences in one pass."""
        features = [
            self.value(s, turn, "features")
            for s, turns in enumerate(self.case["sequences"])
            if turn < len(turns)
        ]
        rowsets = [
            Rowset(s, [0] * len(part), self.drafter.state.length(s), "none")
            for s, part in enumerate(features)
        ]
        rows = Rows.lay_out(rowsets, CPU)
        kept = {s: len(part) for s, part in enumerate(features)}
        self.drafter.observe(rows, torch.cat(features), kept)

    def requests(self, turn: int, sampling: Sampling) -> list[DraftRequest]:
        requests = []
        for s, turns in enumerate(self.case["sequences"]):
            one = turns[turn]
            assert self.drafter.state.length(s) == one["start"]
            history = [0] * one["start"] + [one["anchor"]]
            requests.append(DraftRequest(s, history, one["rows"] - 1, sampling, Noise(1)))
        return requests

    def turns(self):
        """Rounds, with the rows of their (equally long) blocks."""
        for turn in range(len(self.case["sequences"][0])):
            sizes = {turns[turn]["rows"] for turns in self.case["sequences"]}
            assert len(sizes) == 1
            yield turn, sizes.pop()


@pytest.mark.parametrize("name", CASES)
def test_hidden_states_and_logits(name: str) -> None:
    case = Case(name)
    for turn, rows in case.turns():
        case.observe(turn)
        hidden = hidden_rows(case.drafter, case.requests(turn, Sampling()), rows)
        logits = case.drafter.logits(hidden)
        for s in range(len(case.case["sequences"])):
            mine = slice(s * (rows - 1), (s + 1) * (rows - 1))
            torch.testing.assert_close(hidden[mine], case.value(s, turn, "hidden")[1:], **NEAR)
            torch.testing.assert_close(logits[mine], case.value(s, turn, "logits"), **NEAR)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("dflash2")])
def test_candidates_scores_path_and_q(name: str) -> None:
    case = Case(name)
    drafter = case.drafter
    assert isinstance(drafter, DFlash2)
    for turn, rows in case.turns():
        case.observe(turn)
        requests = case.requests(turn, Sampling())
        candidates, scores = drafter.draft(requests, rows)
        for s in range(len(requests)):
            mine = slice(s * (rows - 1), (s + 1) * (rows - 1))
            _check_lattice(case, s, turn, candidates[mine], scores[mine].float())
        drafts = drafter.propose(requests, rows)
        for s, draft in enumerate(drafts):
            assert draft.tokens == tuple(case.value(s, turn, "path").tolist())


def _check_lattice(case: Case, s: int, turn: int, candidates: Tensor, scores: Tensor) -> None:
    ids, order = candidates.sort(dim=-1)
    assert torch.equal(ids, case.value(s, turn, "candidates"))
    first = case.value(s, turn, "first_scores")
    torch.testing.assert_close(scores[0, :, order[0]], first.expand(len(first), -1), **NEAR)
    lattice = case.value(s, turn, "lattice")
    for n in range(1, len(ids)):
        mine = scores[n][order[n - 1]][:, order[n]]
        torch.testing.assert_close(mine, lattice[n - 1], **NEAR)
    for j, sampling in enumerate(case.case["samplings"]):
        path, q = case.value(s, turn, f"path{j}"), case.value(s, turn, f"q{j}")
        predecessor = 0
        for n, token in enumerate(path.tolist()):
            settings = Sampling(temperature=sampling["temperature"])
            support = candidate_support(candidates[n], scores[n, predecessor], settings, [])
            mine = torch.zeros(len(q[n]), dtype=torch.float64)
            mine[torch.searchsorted(ids[n], support.ids)] = support.p
            torch.testing.assert_close(mine.float(), q[n], **NEAR)
            predecessor = int((candidates[n] == token).nonzero()[0])


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("dflash-")])
def test_path_and_q_of_dflash(name: str) -> None:
    case = Case(name)
    for turn, rows in case.turns():
        case.observe(turn)
        drafts = case.drafter.propose(case.requests(turn, Sampling()), rows)
        for s, draft in enumerate(drafts):
            assert draft.tokens == tuple(case.value(s, turn, "path").tolist())
        for j, given in enumerate(case.case["samplings"]):
            sampling = Sampling(**given, rule="rejection")
            drafts = case.drafter.propose(case.requests(turn, sampling), rows)
            for s, draft in enumerate(drafts):
                assert len(draft.q) == rows - 1
                dense = torch.zeros_like(case.value(s, turn, f"q{j}"), dtype=torch.float64)
                for n, support in enumerate(draft.q):
                    dense[n, support.ids] = support.p
                torch.testing.assert_close(dense.float(), case.value(s, turn, f"q{j}"), **NEAR)
