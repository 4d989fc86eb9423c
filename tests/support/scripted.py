"""A target that says a given text, and a drafter that proposes whatever it was told to."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.none import CountingState
from draftwalk.loop import Loop, Step
from draftwalk.ops.torch import DenseMatrix
from draftwalk.rows import Rows
from draftwalk.sequence import Request
from draftwalk.sequence import Sequence as Text
from draftwalk.target import PassOutput, SharedTables
from draftwalk.verify.distribution import Support
from support.models import DOUBLE


class ScriptTarget:
    """Whatever it reads, the token it wants at place n of every sequence is script[n]."""

    depth = 1
    width = 1
    ops = DOUBLE

    def __init__(self, script: Sequence[int], vocabulary: int = 64, context: int = 4096) -> None:
        self.script = script
        self.vocabulary = vocabulary
        self.context = context
        table = DenseMatrix(torch.zeros(vocabulary, 1, dtype=torch.float64))
        self.tables = SharedTables(table, table)

    def new_state(self) -> CountingState:
        return CountingState()

    def forward(self, rows: Rows, state: CountingState, taps: tuple[int, ...]) -> PassOutput:
        logits = torch.zeros(len(rows.wanted), self.vocabulary, dtype=torch.float64)
        for n, place in enumerate(rows.places[rows.wanted].tolist()):
            logits[n, self.script[(place + 1) % len(self.script)]] = 30.0
        features = torch.zeros(rows.size, len(taps), dtype=torch.float64)
        return PassOutput.of(rows, logits, [features] if taps else [])


class ListedDrafter:
    """Proposes the entries of a list, step by step, whatever was asked for.

    Args:
        drafts: what to propose in each step; nothing after the last.
        confidence: how sure to be of each token of a draft.
        block: rows of a block it claims to have.
        context: places it claims to work in.
    """

    taps = ()
    shortens = False

    def __init__(
        self,
        drafts: Sequence[Sequence[int]],
        confidence: Sequence[float] = (),
        block: int = 6,
        context: int = 2**40,
    ) -> None:
        self.state = CountingState()
        self.block = block
        self.context = context
        self.asked: list[DraftRequest] = []
        self._drafts = list(drafts)
        self._confidence = tuple(confidence)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        assert len(requests) == 1, "a list is for one sequence"
        self.asked += requests
        tokens = tuple(self._drafts.pop(0)) if self._drafts else ()
        q = tuple(Support.certain(token) for token in tokens)
        sure = (*self._confidence, *(1.0,) * len(tokens))[: len(tokens)]
        return [Draft(tokens, q, sure)]

    def observe(self, rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        self.state.begin(rows)
        self.state.commit(kept)


def answer(loop: Loop, request: Request) -> tuple[Text, list[Step]]:
    """Takes one request to its end; its slot stays open."""
    sequence = loop.admit(request)
    return sequence, finish(loop, sequence)


def finish(loop: Loop, sequence: Text) -> list[Step]:
    """Steps until a sequence has ended; its own."""
    seen = len(sequence.steps)
    while sequence.finish_reason is None:
        loop.step()
    return sequence.steps[seen:]


def make_loop(target, drafter, context: int = 4096, chunk: int = 512) -> Loop:
    """A loop in float64 on the CPU."""
    return Loop(target, drafter, context, chunk)
