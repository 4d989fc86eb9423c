"""A tiny conditional target, a toy loop around the real verify rules, exact text probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import torch

from draftwalk.settings import Sampling
from draftwalk.verify import Noise, Support, Verdict, coupled, rejection, supports

Text = tuple[int, ...]
Proposal = tuple[list[int], list[Support]]
Propose = Callable[[Text, Noise], Proposal]  # text so far -> draft and its q


@dataclass
class ToyChain:
    """Random logits for every prefix of a tiny vocabulary, through the real filters."""

    V: int
    sampling: Sampling
    seed: int
    spread: float = 1.5
    known: dict[Text, Support] = field(default_factory=dict)

    def logits(self, text: Text) -> torch.Tensor:
        words = np.random.default_rng([self.seed, len(text), *text]).normal(size=self.V)
        return torch.from_numpy(words * self.spread)

    def support(self, text: Text) -> Support:
        if text not in self.known:
            (self.known[text],) = supports(self.logits(text)[None], self.sampling, text, ())
        return self.known[text]

    def rows(self, text: Text, draft: Sequence[int]) -> list[Support]:
        return [self.support((*text, *draft[:i])) for i in range(len(draft) + 1)]

    def probability(self, prompt: Text, text: Text) -> float:
        steps = (self.support(prompt + text[:i]).probability(t) for i, t in enumerate(text))
        return math.prod(steps)

    def distribution(self, prompt: Text, length: int) -> dict[Text, float]:
        texts = product(range(self.V), repeat=length)
        return {text: self.probability(prompt, text) for text in texts}


def coupled_text(
    chain: ToyChain, propose: Propose, noise: Noise, prompt: Text, length: int
) -> tuple[Text, list[Verdict]]:
    """The loop of the coupled rule around a toy drafter: text, and a verdict per step."""
    text, verdicts = prompt, []
    while len(text) < len(prompt) + length:
        draft, _ = propose(text, noise)
        verdicts.append(coupled(chain.rows(text, draft), draft, noise, len(text)))
        text = (*text, *draft[: verdicts[-1].accepted], verdicts[-1].token)
    return text[len(prompt) :][:length], verdicts


def rejection_text(
    chain: ToyChain, propose: Propose, noise: Noise, prompt: Text, length: int
) -> Text:
    """The loop of the rejection rule around a toy drafter."""
    text = prompt
    while len(text) < len(prompt) + length:
        draft, q = propose(text, noise)
        verdict = rejection(chain.rows(text, draft), draft, q, noise, len(text))
        text = (*text, *draft[: verdict.accepted], verdict.token)
    return text[len(prompt) :][:length]


def no_draft(text: Text, noise: Noise) -> Proposal:
    return [], []


def misfit(texts: Iterable[Text], exact: Mapping[Text, float]) -> float:
    """Chi-square of observed texts against exact probabilities, as a standard normal score."""
    counts: dict[Text, int] = dict.fromkeys(exact, 0)
    for text in texts:
        counts[text] += 1
    if any(counts[text] and not p for text, p in exact.items()):
        return math.inf  # a text the target cannot write
    total = sum(counts.values())
    cells = sorted(exact, key=lambda text: exact[text])
    rare = [text for text in cells if exact[text] * total < 10]
    observed = [counts[text] for text in cells if text not in rare]
    expected = [exact[text] * total for text in cells if text not in rare]
    if sum(exact[text] for text in rare) * total >= 10:
        observed.append(sum(counts[text] for text in rare))
        expected.append(sum(exact[text] for text in rare) * total)
    return chi_square_score(np.array(observed), np.array(expected))


def chi_square_score(observed: np.ndarray, expected: np.ndarray) -> float:
    """Wilson and Hilferty's normal score of Pearson's statistic with one constraint."""
    df = observed.size - 1
    statistic = float(((observed - expected) ** 2 / expected).sum())
    spread = 2 / (9 * df)
    return float(((statistic / df) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))
