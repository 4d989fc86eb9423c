"""The one loop: draft, verify, commit.

Every step is one pass of the drafter over the blocks of all sequences that decode, and one pass of
the target over their anchors and drafts together with chunks of prompts still to be read. Plain
decoding is this loop with the empty drafter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from threading import RLock
from typing import Generic

from draftwalk.draft import Draft, Drafter, DraftRequest
from draftwalk.draft.backlog import Backlog
from draftwalk.errors import UserError
from draftwalk.rows import Rows, Rowset
from draftwalk.sequence import Request, Sequence
from draftwalk.state import pass_over
from draftwalk.step import Step, StepTimes
from draftwalk.target import StateT, Target
from draftwalk.target.measure import measure_passes
from draftwalk.verify.logits import Logits
from draftwalk.verify.verdict import Verdict, coupled, rejection
from draftwalk.verify.window import verified
from draftwalk.window import Calibration, Certain, Offer, Spent, Windows

CHUNK = 512  # prompt rows in one pass


@dataclass(frozen=True, slots=True)
class _Gain:
    """Tokens a text gained in a step, and how many of them were drafted."""

    tokens: tuple[int, ...] = ()
    accepted: int = 0


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

    def judge(self, logits: Logits) -> Verdict:
        """Which drafted tokens stand, and the token after them; changes nothing."""
        s, draft = self.sequence, self.draft
        sampling, position = s.request.sampling, len(s.tokens)
        rows = logits.rows(sampling, s.tokens, draft.tokens)
        if sampling.rule == "coupled":
            return coupled(rows, draft.tokens, s.noise, position)
        return rejection(rows, draft.tokens, draft.q, s.noise, position)

    def grow(self, verdict: Verdict | None) -> _Gain:
        """Appends the verdict's tokens to the text, up to where it ends.

        A row that cannot be used ends it too; drafts judged before that row still stand.
        """
        if verdict is None:
            return _Gain()
        tokens = self.draft.tokens[: verdict.accepted]
        if verdict.token is not None:
            tokens = (*tokens, verdict.token)
        for n, token in enumerate(tokens):
            self.sequence.push(token)
            if self.sequence.finish_reason is not None:
                return _Gain(tokens[: n + 1], min(verdict.accepted, n + 1))
        if verdict.fault is not None:
            self.sequence.fail(verdict.fault)
        return _Gain(tokens, verdict.accepted)

    def rows_kept(self, gain: _Gain) -> int:
        """Rows to commit: all that was pending, and each kept draft but the newest token itself."""
        if self.sequence.finish_reason == "error":
            return 0
        return self.pending - 1 + len(gain.tokens) if self.complete else self.pending

    def report(self, gain: _Gain, asked: int, times: StepTimes) -> None:
        """Adds what the step did to the sequence's steps."""
        step = Step(
            prompt_rows=self.prompt_rows,
            draft=self.draft.tokens,
            accepted=gain.accepted,
            tokens=gain.tokens,
            text=self.sequence.take_text(),
            finish_reason=self.sequence.finish_reason,
            times=times,
            asked=asked,
            confidence=self.draft.confidence,
        )
        self.sequence.steps.append(step)


class Loop(Generic[StateT]):
    """Answers several requests at once.

    Args:
        target: the model whose text it is.
        drafter: proposes tokens; the empty one for plain decoding.
        context: most tokens of a sequence; at most the target's.
        chunk: prompt rows in one pass.
        calibration: how the drafter's confidence and acceptance belong together, if it says so.
    """

    def __init__(
        self,
        target: Target[StateT],
        drafter: Drafter,
        context: int,
        chunk: int = CHUNK,
        calibration: Calibration | None = None,
    ) -> None:
        assert chunk > 0, "a pass reads some of the prompt"
        self.target = target
        self.drafter = drafter
        self.context = min(context, target.context)
        self.state = target.new_state()
        known = calibration or Calibration.usual(drafter.block - 1)
        self.windows = Windows(known, drafter.shortens)
        self.backlog = Backlog(drafter)
        self._chunk = chunk
        self._sequences: list[Sequence] = []
        self._slots: set[int] = set()
        self._turn = RLock()  # threads may share a loop: each step serves all of them

    def admit(self, request: Request) -> Sequence:
        """Takes a request into a fresh slot; the next step works on it."""
        with self._turn:
            slot = next(n for n in range(len(self._slots) + 1) if n not in self._slots)
            self.state.open(slot)
            try:
                self.drafter.state.open(slot)
            except BaseException:
                self.state.close(slot)
                raise
            self._slots.add(slot)
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
        with self._turn:
            return self._start(
                Sequence(request, before.slot, self.context, self._rewind(before.slot, shared))
            )

    def release(self, sequence: Sequence) -> None:
        """Forgets a sequence, ended or not, and frees its slot."""
        with self._turn:
            if sequence in self._sequences:
                self._sequences.remove(sequence)
            self.state.close(sequence.slot)
            self.backlog.close(sequence.slot)
            self.windows.end(sequence.slot)
            self._slots.remove(sequence.slot)

    @property
    def busy(self) -> bool:
        """Whether any text has not ended."""
        return bool(self._sequences)

    def step(self) -> None:
        """Takes sequences one step further; `Sequence.steps` says what it did for each.

        A pass that fails leaves every sequence as it was. A failure after it, when texts have grown
        already, ends the sequences it was working on.
        """
        with self._turn, self.target.ops.alone():
            if self.busy:  # another thread may have ended the last text meanwhile
                self._step()

    def _step(self) -> None:
        self._measure()
        now = self.target.ops.now
        times = [now()]
        work = self._plan(self._draft())
        times.append(now())
        rows = Rows.lay_out([part.rowset() for part in work], self.target.ops.device)
        grown = False
        try:
            with pass_over(self.state, rows) as kept:
                out = self.target.forward(rows, self.state, self.drafter.taps)
                times.append(now())
                verdicts = _judge(work, Logits.of(out.logits, out.greatest))
                times.append(now())
                grown = True
                gains = [part.grow(verdict) for part, verdict in zip(work, verdicts, strict=True)]
                for part, gain in zip(work, gains, strict=True):
                    kept[part.sequence.slot] = part.rows_kept(gain)
            for part in work:
                part.sequence.processed += kept[part.sequence.slot]
            times.append(now())
            self.backlog.observe(rows, out.features, kept, self.windows.idle(kept))
            self._learn(work, verdicts)
        except BaseException:
            if grown:
                for part in work:
                    part.sequence.fail(UserError("a step of this text failed", "ask again"))
            raise
        finally:
            self._sequences = [s for s in self._sequences if s.finish_reason is None]
        times.append(now())
        spent = StepTimes(*(after - before for before, after in pairwise(times)))
        self.windows.spent(_spent(rows, work, spent))
        for part, gain in zip(work, gains, strict=True):
            part.report(gain, self.windows.asked(part.sequence.slot), spent)

    def _start(self, sequence: Sequence) -> Sequence:
        request = sequence.request
        self.windows.begin(sequence.slot, request.window, request.sampling)
        if sequence.finish_reason is None:
            self._sequences.append(sequence)
        return sequence

    def _rewind(self, slot: int, length: int) -> int:
        """Takes target and drafter back to the greatest length that both can reach.

        A drafter that stopped at the end of its context goes no further back than it has to.
        """
        drafted = self.backlog
        while True:
            reached = self.state.reachable(slot, length)
            within = min(reached, self.drafter.context)
            if drafted.reachable(slot, within) < within:
                reached = drafted.reachable(slot, within)
            if reached == length:
                break
            length = reached
        self.state.truncate(slot, length)
        drafted.truncate(slot, min(length, drafted.length(slot)))
        return length

    def _measure(self) -> None:
        """Looks what passes cost, once, where windows depend on it and a draft is near.

        The texts know nothing of it, and their first tokens do not wait for it.
        """
        if not self.windows.wants_measures:
            return
        ready = next((s for s in self._sequences if self._room(s) > 0), None)
        if ready is not None:
            free = next(n for n in range(len(self._slots) + 1) if n not in self._slots)
            block, taps = self.drafter.block, self.drafter.taps
            found = measure_passes(self.target, self.state, taps, ready.slot, free, block)
            self.windows.measured(found)

    def _draft(self) -> dict[int, Draft]:
        """What is to be verified of drafts, by slot, for the sequences that draft in this step."""
        limits = self.windows.limits({s.slot: self._room(s) for s in self._sequences})
        asking = [(s, limits[s.slot]) for s in self._sequences if limits[s.slot] > 0]
        if not asking:
            return {}
        self.backlog.catch_up(s.slot for s, _ in asking)
        drafts = self.drafter.propose(
            [
                DraftRequest(s.slot, s.tokens, limit, s.request.sampling, s.noise)
                for s, limit in asking
            ]
        )
        usable = [
            self._usable(draft, s, limit) for draft, (s, limit) in zip(drafts, asking, strict=True)
        ]
        offers = [
            Offer(s.slot, draft.confidence, s.processed, s.request.window.n_min)
            for draft, (s, _) in zip(usable, asking, strict=True)
        ]
        windows = self.windows.choose(offers, self._certain())
        return {
            offer.slot: draft if window == len(draft.tokens) else draft.cut(window)
            for offer, draft, window in zip(offers, usable, windows, strict=True)
        }

    def _room(self, s: Sequence) -> int:
        """Most tokens to draft for a sequence: none before its prompt is read."""
        block = self.drafter.block
        prompt_read = s.processed >= len(s.request.prompt)
        if not prompt_read or s.processed + block > self.drafter.context:
            return 0
        wanted = s.request.window.n_max
        return min(block - 1 if wanted is None else wanted, block - 1, s.remaining - 1)

    def _certain(self) -> Certain:
        """What will be in the pass besides drafts."""
        anchors = [s.processed for s in self._sequences if s.pending == 1]
        reading = sum(s.pending for s in self._sequences if s.pending > 1)
        return Certain(len(anchors) + min(reading, self._chunk), len(anchors), sum(anchors))

    def _plan(self, drafts: dict[int, Draft]) -> list[_Work]:
        """Adds drafts to their anchors, and cuts prompts to this pass's share of rows."""
        work = []
        budget = self._chunk
        for s in self._sequences:
            if s.pending > 1:
                share = min(s.pending, budget)
                budget -= share
                if share:
                    work.append(_Work.of(s, share, Draft()))
                continue
            work.append(_Work.of(s, 1, drafts.get(s.slot, Draft())))
        return work

    def _usable(self, draft: Draft, s: Sequence, limit: int) -> Draft:
        """The part of a draft that may be verified.

        It ends before an id that is no token, since the target cannot read it. Under the rejection
        rule such an id is still judged, and rejected: its q stays, one longer than the tokens.
        """
        known, rule = self.target.vocabulary, s.request.sampling.rule
        limit = min(len(draft.tokens), limit)
        size = next((n for n in range(limit) if not 0 <= draft.tokens[n] < known), limit)
        length = verified(draft.confidence[:size], s.request.window, rule)
        cut = draft.cut(length)
        if rule == "rejection" and length == size < limit:
            return replace(cut, q=draft.q[: size + 1])
        return cut

    def _learn(self, work: list[_Work], verdicts: list[Verdict | None]) -> None:
        """Tells later windows what became of drafts."""
        for part, verdict in zip(work, verdicts, strict=True):
            if verdict is not None:
                judged = verdict.fault is None
                self.windows.learn(part.sequence.slot, verdict.accepted, judged)


def _judge(work: list[_Work], logits: Logits) -> list[Verdict | None]:
    """A verdict for each sequence that has logits in the pass."""
    verdicts: list[Verdict | None] = []
    first = 0
    for part in work:
        rows = len(part.draft.tokens) + 1 if part.complete else 0
        verdicts.append(part.judge(logits.part(first, first + rows)) if rows else None)
        first += rows
    return verdicts


def _spent(rows: Rows, work: list[_Work], times: StepTimes) -> Spent:
    """What a step was and took, as windows are chosen by it."""
    return Spent(
        slots=tuple(part.sequence.slot for part in work),
        rows=rows.size,
        places=sum(span.size * span.context for span in rows.spans),
        reading=any(part.prompt_rows for part in work),
        draft=times.draft + times.observe,
        verify=times.verify,
        rest=times.choose + times.commit,
    )
