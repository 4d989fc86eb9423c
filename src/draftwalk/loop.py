"""The one loop: draft, verify, commit.

Every step is one pass of the drafter over the blocks of all sequences that decode, and one pass of
the target over their anchors and drafts together with chunks of prompts still to be read. Plain
decoding is this loop with the empty drafter.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Generic

import torch

from draftwalk.clock import Clock
from draftwalk.draft import Draft, Drafter, DraftRequest
from draftwalk.errors import NumericalError, UserError
from draftwalk.rows import Rows, Rowset
from draftwalk.sequence import FinishReason, Request, Sequence
from draftwalk.state import pass_over
from draftwalk.target import StateT, Target, new_output
from draftwalk.verify.distribution import supports
from draftwalk.verify.verdict import Verdict, coupled, rejection
from draftwalk.verify.window import verified

CHUNK = 512  # prompt rows in one pass


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a step: drafting, the target's pass, choosing tokens, committing."""

    draft: float
    verify: float
    choose: float
    commit: float

    @property
    def total(self) -> float:
        """The whole step."""
        return self.draft + self.verify + self.choose + self.commit


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did for one sequence.

    Attributes:
        sequence: whose step it was.
        prompt_rows: rows of its prompt that were read.
        draft: the drafted tokens that were verified.
        accepted: how many of them the text kept.
        tokens: what the text gained: the kept drafts and, unless cut before it, the next token.
        text: what became certain of the text.
        finish_reason: set by the step that ended the text.
        times: of the whole step, all sequences together.
    """

    sequence: Sequence
    prompt_rows: int
    draft: tuple[int, ...]
    accepted: int
    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason | None
    times: StepTimes


@dataclass(frozen=True, slots=True)
class _Work:
    """One sequence's part of a pass: its pending tokens (or a chunk of them), then its draft.

    It is complete if the last pending token is in it, so that a new one can be chosen.
    """

    sequence: Sequence
    pending: int
    draft: Draft
    prompt_rows: int
    complete: bool

    @staticmethod
    def of(sequence: Sequence, pending: int, draft: Draft) -> _Work:
        """Work on the sequence as it stands."""
        unread = len(sequence.request.prompt) - sequence.processed
        prompt_rows = max(0, min(unread, pending))
        return _Work(sequence, pending, draft, prompt_rows, pending == sequence.pending)

    def rowset(self) -> Rowset:
        """Its rows; logits for the anchor and every drafted token."""
        s = self.sequence
        tokens = s.tokens[s.processed : s.processed + self.pending]
        if not self.complete:
            return Rowset(s.slot, tokens, s.processed, "none")
        if not self.draft.tokens:
            return Rowset(s.slot, tokens, s.processed, "last")
        assert self.pending == 1, "only a sequence whose prompt is read drafts"
        return Rowset(s.slot, [*tokens, *self.draft.tokens], s.processed, "all")


@dataclass(frozen=True, slots=True)
class _Gain:
    """Tokens a text gained in a step, and how many of them were drafted."""

    tokens: tuple[int, ...] = ()
    accepted: int = 0


class Loop(Generic[StateT]):
    """Answers several requests at once.

    Args:
        target: the model whose text it is.
        drafter: proposes tokens; the empty one for plain decoding.
        context: most tokens of a sequence; at most the target's.
        device: where the row tables live.
        dtype: type of logits and features.
        chunk: prompt rows in one pass.
    """

    def __init__(
        self,
        target: Target[StateT],
        drafter: Drafter,
        context: int,
        device: torch.device,
        dtype: torch.dtype,
        chunk: int = CHUNK,
    ) -> None:
        assert chunk > 0, "a pass reads some of the prompt"
        self.target = target
        self.drafter = drafter
        self.context = min(context, target.context)
        self.state = target.new_state()
        self._device = device
        self._dtype = dtype
        self._chunk = chunk
        self._clock = Clock(device)
        self._sequences: list[Sequence] = []
        self._slots: set[int] = set()

    def admit(self, request: Request) -> Sequence:
        """Takes a request into a fresh slot; the next step works on it."""
        slot = next(n for n in range(len(self._slots) + 1) if n not in self._slots)
        self._slots.add(slot)
        self.state.open(slot)
        self.drafter.state.open(slot)
        return self._start(Sequence(request, slot, self.context))

    def follow(self, before: Sequence, request: Request) -> Sequence:
        """Takes a request into the slot of an ended one, keeping the prefix they share.

        At least the last token of the new prompt is processed again, for its logits.
        """
        assert before.finish_reason is not None, "the text before has not ended"
        known = before.tokens[: before.processed]
        shared = 0
        for old, new in zip(known, request.prompt[:-1], strict=False):
            if old != new:
                break
            shared += 1
        return self._start(
            Sequence(request, before.slot, self.context, self._rewind(before.slot, shared))
        )

    def release(self, sequence: Sequence) -> None:
        """Forgets a sequence, ended or not, and frees its slot."""
        if sequence in self._sequences:
            self._sequences.remove(sequence)
        self.state.close(sequence.slot)
        self.drafter.state.close(sequence.slot)
        self._slots.remove(sequence.slot)

    @property
    def busy(self) -> bool:
        """Whether any text has not ended."""
        return bool(self._sequences)

    def step(self) -> list[Step]:
        """Takes every sequence one step further; an entry for each."""
        times = [self._clock.now()]
        work = self._plan(self._draft())
        times.append(self._clock.now())
        rows = Rows.lay_out([part.rowset() for part in work], self._device)
        out = new_output(
            rows, self.drafter.taps, self.target.vocabulary, self.target.width, self._dtype
        )
        gains: list[_Gain] = []
        with pass_over(self.state, rows) as kept:
            self.target.forward(rows, self.state, out)
            times.append(self._clock.now())
            first = 0
            for part in work:
                wanted = len(part.draft.tokens) + 1 if part.complete else 0
                gain = self._choose(part, out.logits[first : first + wanted])
                first += wanted
                gains.append(gain)
                kept[part.sequence.slot] = _rows_kept(part, len(gain.tokens))
            times.append(self._clock.now())
        self.drafter.observe(rows, out.features, kept)
        for part in work:
            part.sequence.processed += kept[part.sequence.slot]
        times.append(self._clock.now())
        self._sequences = [s for s in self._sequences if s.finish_reason is None]
        spent = StepTimes(*(after - before for before, after in pairwise(times)))
        return [_report(part, gain, spent) for part, gain in zip(work, gains, strict=True)]

    def _start(self, sequence: Sequence) -> Sequence:
        if sequence.finish_reason is None:
            self._sequences.append(sequence)
        return sequence

    def _rewind(self, slot: int, length: int) -> int:
        """Takes target and drafter back to the greatest length that both can reach.

        A drafter that stopped at the end of its context goes no further back than it has to.
        """
        drafted = self.drafter.state
        while True:
            reached = self.state.reachable(slot, length)
            within = min(reached, drafted.length(slot))
            if drafted.reachable(slot, within) < within:
                reached = drafted.reachable(slot, within)
            if reached == length:
                break
            length = reached
        self.state.truncate(slot, length)
        drafted.truncate(slot, min(length, drafted.length(slot)))
        return length

    def _draft(self) -> dict[int, Draft]:
        """Drafts by slot, for the sequences whose prompt is read and that have room for one."""
        wanting = [
            DraftRequest(s.slot, s.tokens, limit, s.request.sampling, s.noise)
            for s in self._sequences
            if (limit := self._room(s)) > 0
        ]
        if not wanting:
            return {}
        drafts = self.drafter.propose(wanting)
        return {request.sequence: draft for request, draft in zip(wanting, drafts, strict=True)}

    def _room(self, s: Sequence) -> int:
        """Most tokens to draft for a sequence."""
        block = self.drafter.block
        prompt_read = s.processed >= len(s.request.prompt)
        if not prompt_read or s.processed + block > self.drafter.context:
            return 0
        wanted = s.request.window.n_max
        return min(block - 1 if wanted is None else wanted, block - 1, s.remaining - 1)

    def _plan(self, drafts: dict[int, Draft]) -> list[_Work]:
        """Cuts drafts to what is verified and prompts to this pass's share of rows."""
        work = []
        budget = self._chunk
        for s in self._sequences:
            if s.pending > 1:
                share = min(s.pending, budget)
                budget -= share
                if share:
                    work.append(_Work.of(s, share, Draft()))
                continue
            work.append(
                _Work.of(s, 1, self._cut(drafts[s.slot], s) if s.slot in drafts else Draft())
            )
        return work

    def _cut(self, draft: Draft, s: Sequence) -> Draft:
        """The part of a draft that is verified; an id that is no token ends it."""
        known = self.target.vocabulary
        size = next(
            (n for n, t in enumerate(draft.tokens) if not 0 <= t < known), len(draft.tokens)
        )
        draft = draft.cut(min(size, self._room(s)))
        return draft.cut(verified(draft.confidence, s.request.window, s.request.sampling.rule))

    def _choose(self, part: _Work, logits: torch.Tensor) -> _Gain:
        """Chooses the sequence's next tokens and pushes them, up to where the text ends."""
        if not part.complete:
            return _Gain()
        s = part.sequence
        try:
            verdict = self._verify(part, logits)
        except UserError as error:
            # A row that cannot be used ends the text there: drafts judged before it still stand.
            sound = error.row if isinstance(error, NumericalError) else 0
            gain = _push(s, part.draft.tokens[:sound], sound)
            if s.finish_reason is None:
                s.fail(error)
            return gain
        tokens = (*part.draft.tokens[: verdict.accepted], verdict.token)
        return _push(s, tokens, verdict.accepted)

    def _verify(self, part: _Work, logits: torch.Tensor) -> Verdict:
        s, draft = part.sequence, part.draft
        sampling, position = s.request.sampling, len(s.tokens)
        p = supports(logits, sampling, s.tokens, draft.tokens)
        if sampling.rule == "coupled":
            return coupled(p, draft.tokens, s.noise, position)
        return rejection(p, draft.tokens, draft.q, s.noise, position)


def _push(sequence: Sequence, tokens: tuple[int, ...], accepted: int) -> _Gain:
    """Appends tokens up to where the text ends; the first `accepted` of them were drafted."""
    for n, token in enumerate(tokens):
        sequence.push(token)
        if sequence.finish_reason is not None:
            return _Gain(tokens[: n + 1], min(accepted, n + 1))
    return _Gain(tokens, accepted)


def _rows_kept(part: _Work, gained: int) -> int:
    """Rows to commit: all that was pending, and each kept draft but the newest token itself."""
    if part.sequence.finish_reason == "error":
        return 0
    return part.pending - 1 + gained if part.complete else part.pending


def _report(part: _Work, gain: _Gain, times: StepTimes) -> Step:
    return Step(
        sequence=part.sequence,
        prompt_rows=part.prompt_rows,
        draft=part.draft.tokens,
        accepted=gain.accepted,
        tokens=gain.tokens,
        text=part.sequence.take_text(),
        finish_reason=part.sequence.finish_reason,
        times=times,
    )
