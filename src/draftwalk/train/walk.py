"""The walk: how far a drafter gets in answers that are known already.

At a place of an answer the drafter proposes; as many tokens stand as agree with the answer, and the
next place is one behind them: the very steps the engine would take. A greedy text does not depend
on what was drafted, nor does a sampled one under the coupled rule, so the target could say nothing
that is not known. Blocks always have their full width, and a smaller window is the beginning of the
same draft. Windows only differ in where their walks stand, so all of them go through a text
together, and a block is drafted once where several stand.

Features are stored in bfloat16, the engine has them in float32: a draft may differ where two tokens
are nearly alike to the drafter, in either direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.draft import DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.errors import UserError
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.train.features import feature_columns
from draftwalk.train.shards import Answer, AnswerFacts, DataFacts
from draftwalk.train.turns import turns_of
from draftwalk.train.visits import Numbers, Visits, Walk, leading
from draftwalk.verify.noise import Noise

PARALLEL = 32  # answers walked through at a time
_CONTEXT_ROWS = 1024  # of one pass
_DONE = 2**62

Report = Callable[[int, int], None]
"""Told after every pass how many answers are done and how many drafts were made."""


def walk(
    drafter: BlockDrafter,
    answers: Iterable[Answer],
    data: DataFacts,
    windows: Sequence[int] = (),
    parallel: int = PARALLEL,
    report: Report | None = None,
) -> Walk:
    """Walks through answers at several windows.

    Answers are drafted as they were made: greedily, or with their seed.

    Args:
        drafter: on any back end; no slot of its state is in use.
        answers: read one by one.
        data: what they have in common.
        windows: most tokens verified in a step, each at most a block's drafted rows; all by
            default. The full window is always among them.
        parallel: answers walked through at a time.
        report: see `Report`.

    Raises:
        UserError: the answers lack the features of a layer, or a window is none.
    """
    widest = drafter.block - 1
    wrong = [window for window in windows if not 1 <= window <= widest]
    if wrong:
        raise UserError(f"a window of {wrong[0]}", f"this drafter drafts 1 to {widest} tokens")
    taken = tuple(sorted({*(windows or range(1, widest + 1)), widest}))
    columns = feature_columns(data, drafter.taps)
    run = _Run(drafter, data, taken, columns, parallel, report or (lambda _done, _drafts: None))
    with drafter.ops.alone():
        return run.finish(answers)


class _Text:
    """An answer under way in a slot.

    Attributes:
        places: where each window's walk stands.
    """

    def __init__(
        self, number: int, slot: int, answer: Answer, data: DataFacts, furthest: int, windows: int
    ) -> None:
        self.number, self.slot, self.answer = number, slot, answer
        self.tokens: list[int] = answer.tokens.tolist()
        self._turns = turns_of(answer, data.max_tokens, furthest)
        self.places = [self.following(0)] * windows
        facts = answer.facts
        self._sampling = Sampling() if facts.greedy else Sampling(temperature=data.temperature)
        self._noise = Noise(facts.seed)

    @property
    def place(self) -> int:
        """The next block's anchor."""
        return min(self.places)

    def following(self, place: int) -> int:
        """The first place from here on where a block is drafted."""
        for turn in self._turns:
            if place <= turn.last:
                return max(place, turn.first)
        return _DONE

    def ahead(self, widest: int) -> tuple[list[int], int]:
        """What is known of the tokens after the anchor, and how many would be verified."""
        place = self.place
        turn = next(turn for turn in self._turns if place <= turn.last)
        known = self.tokens[place + 1 : min(place + 1 + widest, turn.end)]
        return known, min(widest, turn.limit - place - 2)

    def request(self, room: int) -> DraftRequest:
        """What the engine would ask for here."""
        history = self.tokens[: self.place + 1]
        return DraftRequest(self.slot, history, room, self._sampling, self._noise)

    def advance(self, windows: Sequence[int], stands: int) -> list[bool]:
        """Takes the walks that are here further, `stands` being right; which they were."""
        place = self.place
        here = [one == place for one in self.places]
        for n, window in enumerate(windows):
            if here[n]:
                self.places[n] = self.following(place + min(window, stands) + 1)
        return here


class _Run:
    """Walks through all answers, some at a time."""

    def __init__(
        self,
        drafter: BlockDrafter,
        data: DataFacts,
        windows: tuple[int, ...],
        columns: Tensor,
        parallel: int,
        report: Report,
    ) -> None:
        self._drafter, self._data, self._windows = drafter, data, windows
        self._columns, self._parallel, self._report = columns, parallel, report
        self._facts: list[AnswerFacts] = []
        self._tokens: list[int] = []
        self._texts: list[_Text] = []
        self._visits: list[Visits] = []
        self._drafts = self._candidates = 0

    def finish(self, answers: Iterable[Answer]) -> Walk:
        """Runs until there is nothing left to walk through."""
        waiting = iter(answers)
        try:
            while self._fill(waiting):
                self._listen()
                self._step()
                self._drafts += len(self._texts)
                self._report(len(self._facts) - len(self._texts), self._drafts)
        finally:
            for text in self._texts:
                self._drafter.state.close(text.slot)
        if not self._visits:
            raise UserError(
                f"{len(self._facts)} answers have nothing to draft", "longer answers are needed"
            )
        visits, tokens = Visits.join(self._visits), np.array(self._tokens)
        return Walk(tuple(self._facts), tokens, self._windows, self._candidates, visits)

    def _fill(self, waiting: Iterator[Answer]) -> bool:
        """Gives free slots to answers; whether any is under way."""
        for text in [text for text in self._texts if text.place == _DONE]:
            self._drafter.state.close(text.slot)
            self._texts.remove(text)
        used = {text.slot for text in self._texts}
        free = [slot for slot in range(self._parallel) if slot not in used]
        furthest = self._drafter.context - self._drafter.block
        while free and (answer := next(waiting, None)) is not None:
            text = _Text(
                len(self._facts), free[0], answer, self._data, furthest, len(self._windows)
            )
            self._facts.append(answer.facts)
            self._tokens.append(int(answer.learned.sum()))
            if text.place != _DONE:
                self._drafter.state.open(free.pop(0))
                self._texts.append(text)
        return bool(self._texts)

    def _listen(self) -> None:
        """Makes everything before each anchor its block's context."""
        state = self._drafter.state
        while True:
            budget, rowsets, heard = _CONTEXT_ROWS, list[Rowset](), list[Tensor]()
            for text in self._texts:
                known = state.length(text.slot)
                count = min(text.place - known, budget)
                if count:
                    budget -= count
                    rowsets.append(Rowset(text.slot, [0] * count, known, "none"))
                    heard.append(text.answer.features[known : known + count])
            if not rowsets:
                return
            ops = self._drafter.ops
            features = torch.cat(heard)[:, self._columns]
            rows = Rows.lay_out(rowsets, ops.device)
            kept = {span.sequence: span.size for span in rows.spans}
            self._drafter.observe(rows, features.to(ops.device, ops.dtype), kept)

    def _step(self) -> None:
        """A block for every text, and what is to be known of it."""
        texts, widest = self._texts, self._drafter.block - 1
        ahead = [text.ahead(widest) for text in texts]
        requests = [text.request(room) for text, (_, room) in zip(texts, ahead, strict=True)]
        outputs = self._drafter.draft(requests, self._drafter.block)
        drafts = self._drafter.pick(requests, outputs)
        candidates = self._drafter.candidates(outputs).cpu().numpy()
        self._candidates = candidates.shape[1]
        truth = _padded([known for known, _ in ahead], widest).astype(np.int64)
        drafted = _padded([draft.tokens for draft in drafts], widest).astype(np.int64)
        places = [text.place for text in texts]
        stands = leading((drafted >= 0) & (drafted == truth)).tolist()
        walks = [t.advance(self._windows, n) for t, n in zip(texts, stands, strict=True)]
        self._visits.append(
            Visits(
                answers=np.array([text.number for text in texts]),
                places=np.array(places),
                walks=np.array(walks),
                truth=truth,
                drafted=drafted,
                confidence=_padded([draft.confidence for draft in drafts], widest),
                ranks=_ranks(candidates, truth),
            )
        )


def _ranks(candidates: Numbers, truth: Numbers) -> Numbers:
    """Where the right tokens [S, B - 1] are among the candidates [S * (B - 1), K]; K if nowhere."""
    hit = candidates == truth.reshape(-1, 1)
    ranks: Numbers = np.where(hit.any(1), hit.argmax(1), candidates.shape[1])
    return ranks.reshape(truth.shape)


def _padded(rows: Sequence[Sequence[float]], width: int) -> NDArray[np.float64]:
    """Rows of different lengths as one array, -1 behind them."""
    out = np.full((len(rows), width), -1.0)
    for line, row in zip(out, rows, strict=True):
        line[: len(row)] = row
    return out
