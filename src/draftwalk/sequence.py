"""One text in the making: its tokens, its limits, and where it ended.

Tokens are pushed one at a time, so that a stop or a limit inside an accepted run ends the text, and
with it the commit, exactly there. A stop is looked for before the limit: a text that ends by itself
on its last allowed token has stopped.
"""

from __future__ import annotations

from collections.abc import Sequence as TokenSequence
from dataclasses import dataclass, field

from draftwalk.errors import UserError
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.step import FinishReason, Step
from draftwalk.text.stream import TextStream
from draftwalk.verify.noise import Noise


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for.

    Attributes:
        prompt: token ids, at least one.
        sampling: how tokens are chosen; its seed must be set, unless greedy.
        limits: where the text ends.
        window: how much of a draft is verified.
        stop_ids: ids that end the text by the model's own convention.
        stream: turns tokens into text and looks for stop strings; `None` where only ids matter.
        choice: number among several texts of one request, part of the noise's key.
    """

    prompt: TokenSequence[int]
    sampling: Sampling = field(default_factory=Sampling)
    limits: Limits = field(default_factory=Limits)
    window: Window = field(default_factory=Window)
    stop_ids: frozenset[int] = frozenset()
    stream: TextStream | None = None
    choice: int = 0

    def __post_init__(self) -> None:
        self.window.check(self.sampling.rule)


class Sequence:
    """A request being answered.

    Args:
        request: what was asked for.
        slot: its place in the states.
        context: most tokens the text may have, prompt included.
        cached: tokens of the prompt whose rows the states hold already.

    Attributes:
        steps: what every step so far did for it; whoever reads the text reads it from here.
    """

    def __init__(self, request: Request, slot: int, context: int, cached: int = 0) -> None:
        self.request = request
        self.slot = slot
        self.tokens = list(request.prompt)
        self.processed = cached
        self.steps: list[Step] = []
        self.noise = Noise(request.sampling.seed or 0, request.choice)
        self.finish_reason: FinishReason | None = None
        self.error: UserError | None = None
        limits = request.limits
        room = max(0, context - len(self.tokens))
        self._end = len(self.tokens) + (
            room if limits.max_tokens is None else min(room, limits.max_tokens)
        )
        self._stop_ids = limits.stop_ids | (frozenset() if limits.ignore_eos else request.stop_ids)
        if not self.remaining:
            self.finish_reason = "length"

    @property
    def pending(self) -> int:
        """Tokens the target has not processed: what is left of the prompt, or the anchor."""
        return len(self.tokens) - self.processed

    @property
    def remaining(self) -> int:
        """Tokens that may still come."""
        return self._end - len(self.tokens)

    @property
    def generated(self) -> list[int]:
        """Tokens after the prompt."""
        return self.tokens[len(self.request.prompt) :]

    def push(self, token: int) -> None:
        """Appends a token and sees whether the text ends with it."""
        assert self.finish_reason is None, "the text has ended"
        self.tokens.append(token)
        stream = self.request.stream
        if token in self._stop_ids or (stream is not None and stream.push(token)):
            self.finish_reason = "stop"
        elif not self.remaining:
            self.finish_reason = "length"

    def fail(self, error: UserError) -> None:
        """Ends the text with an error of its own."""
        self.error = error
        self.finish_reason = "error"

    def take_text(self) -> str:
        """Text that has become certain since the last call; at the end, all that is left."""
        stream = self.request.stream
        if stream is None:
            return ""
        return stream.take() if self.finish_reason is None else stream.finish()
