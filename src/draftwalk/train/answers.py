"""The first stage: the target answers prompts, and what a drafter would hear is kept.

Prompts are rendered with the serving template and answered by the engine in large batches, some
greedily and some by sampling. Which, and with which seed, depends on the prompt's text only. Turns
are answered one after the other, each after the target's own answers. A run can be stopped at any
time: what was not yet in a finished shard is answered again. Prompts that were answered are known
by their texts.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from draftwalk.draft.export import embedding_fingerprint
from draftwalk.draft.pairing import EMBEDDING
from draftwalk.engine import Engine
from draftwalk.errors import PromptError
from draftwalk.prompt.messages import Message
from draftwalk.sequence import Sequence as Text
from draftwalk.settings import Limits, Sampling
from draftwalk.train.conversations import Conversation
from draftwalk.train.lock import alone_in
from draftwalk.train.looping import LoopWatch
from draftwalk.train.recorder import Recorder
from draftwalk.train.shards import Answer, AnswerFacts, DataFacts, ShardWriter, answered_seeds

SHARD_BYTES = 128 << 20
LEAST_LEARNED = 16  # tokens; shorter answers are not worth their prompt


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How prompts are answered.

    Attributes:
        taps: target layers to listen to.
        sampled: share of prompts answered by sampling.
        temperature: of those.
        max_tokens: most tokens of an answer.
        most_prompt: longest prompt taken, in tokens.
        parallel: prompts answered at a time.
        whole: keep answers that loop, to their end; otherwise they end where the loop begins.
    """

    taps: tuple[int, ...]
    sampled: float = 0.35
    temperature: float = 0.7
    max_tokens: int = 256
    most_prompt: int = 512
    parallel: int = 48
    whole: bool = False


@dataclass(slots=True)
class Progress:
    """What a run has done so far.

    Attributes:
        prompts: taken on or skipped, of `total`.
        total: prompts to answer.
        tokens: generated.
        kept: generated tokens that were kept.
        written: bytes in finished shards.
        skipped: prompts that were too long, or whose answer was too short.
        answers: that were kept.
    """

    total: int
    prompts: int = 0
    tokens: int = 0
    kept: int = 0
    written: int = 0
    skipped: int = 0
    answers: int = 0


@dataclass(slots=True)
class _Turn:
    """One turn being answered: the conversation so far, and earlier answers in its tokens.

    `before` is the record of the earlier turns, which is kept if there is none with this one.
    """

    conversation: Conversation
    messages: list[Message]
    spans: list[tuple[int, int]] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    before: Answer | None = None
    text: Text | None = None
    watch: LoopWatch = field(default_factory=LoopWatch)

    @property
    def running(self) -> Text:
        assert self.text is not None, "the turn has not begun"
        return self.text


def data_facts(engine: Engine, settings: AnswerSettings) -> DataFacts:
    """What all answers of a run have in common."""
    template = "" if engine.template is None else engine.tokenizer.chat_template or ""
    return DataFacts(
        target=embedding_fingerprint(engine.checkpoint.tensors[EMBEDDING]),
        template=hashlib.sha256(template.encode()).hexdigest(),
        back_end=f"{type(engine.target.ops).__name__} {engine.target.ops.dtype}",
        taps=settings.taps,
        width=engine.target.width,
        vocabulary=engine.target.vocabulary,
        sampled=settings.sampled,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        whole=settings.whole,
    )


def answer(
    engine: Engine,
    conversations: Sequence[Conversation],
    folder: Path,
    settings: AnswerSettings,
    report: Callable[[Progress], bool],
) -> Progress:
    """Answers all conversations that the folder does not hold yet.

    Args:
        engine: the target; its drafter is not used.
        conversations: in the order in which they are answered.
        folder: shards are added to it.
        settings: how.
        report: told after every step; says whether to go on. If not, answers end where they are.

    Raises:
        UserError: the folder belongs to another target or to other settings, or another process
            answers into it: both would answer the same.
    """
    with alone_in(folder):
        writer = ShardWriter(folder, data_facts(engine, settings))
        done = answered_seeds(folder)
        left = [c for c in conversations if c.seed not in done]
        return _Run(engine, left, writer, settings, report).finish()


class _Run:
    """A run of the stage."""

    def __init__(
        self,
        engine: Engine,
        conversations: Sequence[Conversation],
        writer: ShardWriter,
        settings: AnswerSettings,
        report: Callable[[Progress], bool],
    ) -> None:
        self._recorder = Recorder(settings.taps)
        self._engine = Engine(engine.checkpoint, engine.target, self._recorder, engine.placement)
        self._waiting = deque(_Turn(c, [Message("user", c.turns[0])]) for c in conversations)
        self._running: list[_Turn] = []
        self._writer = writer
        self._settings = settings
        self._report = report
        self._held: list[Answer] = []
        self._held_bytes = 0
        self._progress = Progress(total=len(conversations))

    def finish(self) -> Progress:
        """Runs until everything is answered."""
        try:
            while self._waiting or self._running:
                self._fill()
                if self._running:
                    self._engine.loop.step()
                for turn in self._running:
                    self._look_at(turn)
                ended = [turn for turn in self._running if self._ended(turn)]
                self._running = [turn for turn in self._running if not self._ended(turn)]
                for turn in ended:
                    self._end(turn)
                if not self._report(self._progress):
                    self._stop()
            self._write()
        finally:
            for turn in self._running:
                self._engine.release(turn.running)
        return self._progress

    def _stop(self) -> None:
        """Ends everything where it is."""
        for turn in self._waiting:
            if turn.before is not None:
                self._keep(turn.before)
        self._waiting.clear()
        for turn in self._running:  # none has ended by itself, so no next turn comes
            self._end(turn)
        self._running = []

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._settings.parallel:
            turn = self._waiting.popleft()
            self._progress.prompts += not turn.spans
            if self._begin(turn):
                self._running.append(turn)
            else:
                self._keep(turn.before)

    def _begin(self, turn: _Turn) -> bool:
        settings = self._settings
        greedy = not turn.conversation.sampled(settings.sampled)
        sampling = (
            Sampling()
            if greedy
            else Sampling(temperature=settings.temperature, seed=turn.conversation.seed)
        )
        try:
            prompt = self._engine.encode_chat(turn.messages)
            if len(prompt) > settings.most_prompt:
                return False
            turn.text = self._engine.start(prompt, sampling, Limits(settings.max_tokens))
        except PromptError:
            return False
        return True

    def _look_at(self, turn: _Turn) -> None:
        text = turn.running
        new = text.steps[-1].tokens if text.steps else ()
        self._progress.tokens += len(new)
        turn.watch.push(new)

    def _ended(self, turn: _Turn) -> bool:
        looped = turn.watch.start is not None and not self._settings.whole
        return turn.running.finish_reason is not None or looped

    def _end(self, turn: _Turn) -> None:
        """Keeps the answer, or puts the conversation's next turn in front of the line."""
        text = turn.running
        if not text.processed:  # its prompt was not read before all was stopped
            self._engine.release(text)
            if turn.before is not None:
                self._keep(turn.before)
            return
        features = self._recorder.take(text.slot)
        self._engine.release(text)
        prompt = len(text.request.prompt)
        # Earlier answers are learned as well, unless the template has rendered them otherwise.
        if text.tokens[: len(turn.known)] != turn.known:
            turn.spans = []
        loop = None if turn.watch.start is None else prompt + turn.watch.start
        end = len(text.tokens) if loop is None or self._settings.whole else loop
        spans = [*turn.spans, (prompt, end)]
        record = _record(turn, features, spans, end, loop) or turn.before
        following = self._following(turn, spans, record)
        if following is not None:
            self._waiting.appendleft(following)
            return
        self._keep(record)

    def _following(
        self, turn: _Turn, spans: list[tuple[int, int]], record: Answer | None
    ) -> _Turn | None:
        turns, text = turn.conversation.turns, turn.running
        asked = (len(turn.messages) + 1) // 2
        if asked == len(turns) or text.finish_reason != "stop":
            return None
        said = "".join(step.text for step in text.steps)
        messages = [*turn.messages, Message("assistant", said), Message("user", turns[asked])]
        return _Turn(turn.conversation, messages, spans, list(text.tokens), record)

    def _keep(self, record: Answer | None) -> None:
        if record is None:
            self._progress.skipped += 1
            return
        self._held.append(record)
        self._progress.answers += 1
        self._progress.kept += int(record.learned.sum())
        self._held_bytes += record.features.nbytes
        if self._held_bytes >= SHARD_BYTES:
            self._write()

    def _write(self) -> None:
        if self._held:
            self._progress.written += self._writer.write(self._held)
        self._held, self._held_bytes = [], 0


def _record(
    turn: _Turn, features: Tensor, spans: Sequence[tuple[int, int]], end: int, loop: int | None
) -> Answer | None:
    """What is kept of a conversation up to this turn; `None` where it is not worth it."""
    text = turn.running
    learned = torch.zeros(end, dtype=torch.bool)
    for first, last in spans:
        learned[first:last] = True
    if text.error is not None or int(learned.sum()) < LEAST_LEARNED:
        return None
    facts = AnswerFacts(
        key=turn.conversation.key,
        source=turn.conversation.source,
        greedy=text.request.sampling.greedy,
        seed=turn.conversation.seed,
        loop=loop,
        finish="loop" if end < len(text.tokens) else text.finish_reason or "length",
    )
    tokens = torch.tensor(text.tokens[:end])
    return Answer(facts, tokens, learned, features[: end - 1].clone())
