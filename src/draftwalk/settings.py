"""What a request may ask for: sampling, limits and the window, as frozen, checked values.

A value out of range is refused here, once, so nothing behind this file has to doubt it. How
defaults are found (flag, then the checkpoint's generation config, then greedy) is not decided here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from draftwalk.errors import PromptError

Rule = Literal["coupled", "rejection"]

GREEDY_BELOW = 1e-6
"""A temperature under this is greedy: dividing by it would only turn rounding into probability."""

SEED_LIMIT = 2**64


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from the target's logits.

    Args:
        temperature: 0 is greedy.
        top_k: keep this many of the most probable tokens; 0 is off.
        top_p: keep the smallest set of most probable tokens with at least this mass; 1 is off.
        min_p: keep tokens with at least this fraction of the best one's probability; 0 is off.
        repeat_penalty: divides positive and multiplies other logits of recent tokens; 1 is off.
        repeat_last_n: how many recent tokens all three penalties look at; 0 is off, -1 all.
        presence_penalty: subtracted once from the logit of every recent token.
        frequency_penalty: subtracted from a recent token's logit for each time it occurs.
        logit_bias: token id to what is added to its logit; -inf bans the token.
        seed: the noise; None asks whoever starts the request to draw one and report it.
        rule: how drafts are verified.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    rule: Rule = "coupled"

    def __post_init__(self) -> None:
        _number("temperature", self.temperature, 0.0, 100.0)
        _whole("top_k", self.top_k, 0)
        _number("top_p", self.top_p, 0.0, 1.0)
        _number("min_p", self.min_p, 0.0, 1.0)
        _number("repeat_penalty", self.repeat_penalty, 0.0, 100.0)
        if self.repeat_penalty == 0:
            raise PromptError("repeat_penalty 0 would divide by zero", "1 turns it off")
        _whole("repeat_last_n", self.repeat_last_n, -1)
        _number("presence_penalty", self.presence_penalty, -100.0, 100.0)
        _number("frequency_penalty", self.frequency_penalty, -100.0, 100.0)
        if not isinstance(self.logit_bias, Mapping):
            raise PromptError("logit_bias is no mapping", "give token ids with their biases")
        for token, bias in self.logit_bias.items():
            _whole("logit_bias: the token id", token, 0)
            if not _is_number(bias) or math.isnan(bias) or bias == math.inf:
                raise PromptError(
                    f"logit_bias of token {token} is {bias!r}",
                    "give a finite number, or -inf to ban",
                )
        if self.seed is not None:
            _whole("seed", self.seed, 0, SEED_LIMIT - 1)
        if self.rule not in get_args(Rule):
            raise PromptError(
                f"rule {self.rule!r} is unknown", f"one of {', '.join(get_args(Rule))}"
            )
        object.__setattr__(self, "logit_bias", dict(self.logit_bias))  # not the caller's to change

    @property
    def greedy(self) -> bool:
        """Whether every distribution is a support of one."""
        return self.temperature < GREEDY_BELOW or self.top_k == 1

    @property
    def penalised(self) -> bool:
        """Whether the text before a row changes that row's logits."""
        neutral = self.repeat_penalty == 1 and not self.presence_penalty
        return self.repeat_last_n != 0 and not (neutral and not self.frequency_penalty)

    @property
    def plain(self) -> bool:
        """Whether logits stay as they are until the temperature."""
        return not self.logit_bias and not self.penalised


@dataclass(frozen=True)
class Limits:
    """Where a text ends.

    Args:
        max_tokens: at most this many new tokens; None leaves only the context's limit.
        stop: strings that end the text, and are not part of it.
        stop_ids: token ids that end the text, besides those of the model.
        ignore_eos: go on after the model's own stop ids.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            _whole("max_tokens", self.max_tokens, 0)
        object.__setattr__(self, "stop", _strings(self.stop))
        if not isinstance(self.stop_ids, Iterable):
            raise PromptError("stop_ids is no collection", "give a set of token ids")
        object.__setattr__(self, "stop_ids", frozenset(self.stop_ids))
        for token in self.stop_ids:
            _whole("stop_ids: a token id", token, 0)


@dataclass(frozen=True)
class Window:
    """How many tokens of a draft are verified.

    Args:
        n_max: at most this many; None is all the drafter's block has, 0 is plain decoding.
        n_min: a draft that is shorter in the end is not verified at all.
        p_min: the draft ends where the drafter's confidence in its token is lower than this.
        auto: of what the others leave, verify as many as make the text fastest. Which they are
            depends on the machine and its load; no text does.
    """

    n_max: int | None = None
    n_min: int = 0
    p_min: float = 0.0
    auto: bool = False

    def __post_init__(self) -> None:
        if self.n_max is not None:
            _whole("n_max", self.n_max, 0)
        _whole("n_min", self.n_min, 0)
        _number("p_min", self.p_min, 0.0, 1.0)
        if self.n_max is not None and 0 < self.n_max < self.n_min:
            raise PromptError(
                f"n_min {self.n_min} is above n_max {self.n_max}: every draft would be discarded"
            )

    def check(self, rule: Rule) -> None:
        """Refuse what would bias the text under `rule`.

        Under rejection, whether a row is verified may depend only on tokens before it. The length
        of a draft that `p_min` has cut depends on later ones, so it may not decide about all rows.
        """
        if rule == "rejection" and self.n_min > 0:
            raise PromptError(
                f"n_min {self.n_min} would bias the text under the rejection rule",
                "leave n_min at 0, or use the coupled rule",
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(name: str, value: float, low: float, high: float) -> None:
    if not _is_number(value) or not low <= value <= high:  # a NaN fails the comparison
        raise PromptError(f"{name} is {value!r}", f"give a number from {low:g} to {high:g}")


def _whole(name: str, value: int, low: int, high: int = 2**31 - 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise PromptError(f"{name} is {value!r}", f"give a whole number from {low} to {high}")


def _strings(stops: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(stops, str):
        raise PromptError(f"stop is the bare string {stops!r}", "give a sequence of strings")
    if not isinstance(stops, Iterable):
        raise PromptError(f"stop is {stops!r}", "give a sequence of strings")
    for stop in stops:
        if not isinstance(stop, str) or not stop:
            raise PromptError(f"stop string {stop!r} is not a text of at least one character")
    return tuple(stops)
