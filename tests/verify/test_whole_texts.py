"""Whole texts against the target's chain, with adversarial drafters that read the noise.

A test of one position cannot see noise that is used twice, so these judge three tokens at a time.
Seeds are fixed: the outcome of every test here is always the same.
"""

from __future__ import annotations

import pytest

from draftwalk.settings import Sampling
from draftwalk.verify import Noise, Purpose, Support, choose_coupled, choose_rejection
from support.toy_chain import (
    Proposal,
    Propose,
    Text,
    ToyChain,
    coupled_text,
    misfit,
    no_draft,
    rejection_text,
)

SAMPLING = Sampling(temperature=0.9, top_k=4, top_p=0.98, repeat_penalty=1.2, frequency_penalty=0.2)
PROMPT, LENGTH = (0, 3), 3


def chain(seed: int = 3, V: int = 5) -> ToyChain:
    return ToyChain(V, SAMPLING, seed)


def noise_reader(target: ToyChain, K: int) -> Propose:
    """Coupled: knows the target's own race, and now helps, now spoils, as later noise tells it."""

    def propose(text: Text, noise: Noise) -> Proposal:
        draft: list[int] = []
        for i in range(K):
            at = len(text) + i
            winner = choose_coupled(target.support((*text, *draft)), noise, at)
            spoil = noise.key(at + 1, Purpose.TOKEN) % 5 < 2
            draft.append((winner + 1) % target.V if spoil else winner)
        return draft, []

    return propose


def honest_draws(target: ToyChain, K: int) -> Propose:
    """Rejection: draws honestly, but from a q chosen by all noise except the position's own."""
    certain = [Support.certain(token) for token in range(target.V)]
    tables = [ToyChain(target.V, Sampling(temperature=t), seed=9) for t in (0.2, 0.7, 2.0)]

    def propose(text: Text, noise: Noise) -> Proposal:
        draft: list[int] = []
        q: list[Support] = []
        for i in range(K):
            at = len(text) + i
            others = [
                noise.uniform(at - 1, Purpose.ACCEPT),
                noise.uniform(at - 1, Purpose.RESIDUAL),
                noise.uniform(at + 1, Purpose.ACCEPT),
            ]
            if others[0] < 0.5:
                q.append(certain[int(others[1] * target.V)])
            else:
                q.append(tables[int(others[2] * 3)].support((*text, *draft)))
            draft.append(choose_rejection(q[-1], noise, at))
        return draft, q

    return propose


def coupled_drafter(target: ToyChain, K: int) -> Propose:
    """A fair drafter: another model's race with the same noise."""
    model = ToyChain(target.V, SAMPLING, seed=4)

    def propose(text: Text, noise: Noise) -> Proposal:
        draft: list[int] = []
        for i in range(K):
            at = len(text) + i
            draft.append(choose_coupled(model.support((*text, *draft)), noise, at))
        return draft, []

    return propose


def changing_window(propose: Propose) -> Propose:
    """Cuts each draft to a length that depends on everything: text, draft, noise."""

    def cut(text: Text, noise: Noise) -> Proposal:
        draft, q = propose(text, noise)
        n = (sum(text) + 3 * sum(draft) + noise.key(len(text), Purpose.DRAFT)) % (len(draft) + 1)
        return draft[:n], q[:n]

    return cut


def fixed_draft(text: Text, noise: Noise) -> Proposal:
    return [1, 2, 0, 1][: 1 + len(text) % 4], []


def test_a_seed_has_one_text_whatever_is_drafted() -> None:
    target = chain()
    drafters = {
        "reads the noise, 3": noise_reader(target, 3),
        "reads the noise, 1": noise_reader(target, 1),
        "changing window": changing_window(noise_reader(target, 4)),
        "fair": coupled_drafter(target, 2),
        "fixed": fixed_draft,
    }
    seen = dict.fromkeys(drafters, 0)
    for seed in range(1500):
        noise = Noise(seed, choice=seed % 3)
        plain, _ = coupled_text(target, no_draft, noise, PROMPT, 6)
        name = list(drafters)[seed % len(drafters)]
        text, verdicts = coupled_text(target, drafters[name], noise, PROMPT, 6)
        assert text == plain, (seed, name)
        seen[name] += sum(verdict.accepted for verdict in verdicts)
    assert min(seen.values()) > 200, "every drafter had drafts accepted"


def test_coupled_texts_have_the_targets_distribution() -> None:
    target = chain()
    propose = changing_window(noise_reader(target, 2))
    texts = [coupled_text(target, propose, Noise(s), PROMPT, LENGTH)[0] for s in range(10_000)]
    assert misfit(texts, target.distribution(PROMPT, LENGTH)) < 3.5


def test_rejection_texts_have_the_targets_distribution() -> None:
    target = chain()
    propose = honest_draws(target, 2)
    texts = [rejection_text(target, propose, Noise(s), PROMPT, LENGTH) for s in range(10_000)]
    assert misfit(texts, target.distribution(PROMPT, LENGTH)) < 3.5


def test_choices_of_one_seed_are_independent_texts() -> None:
    target = chain()
    firsts = [coupled_text(target, no_draft, Noise(5, c), PROMPT, LENGTH)[0] for c in range(4000)]
    assert misfit(firsts, target.distribution(PROMPT, LENGTH)) < 3.5


class SamePosition(Noise):
    """Broken: noise that is used again at every position."""

    def key(self, position: int, purpose: Purpose) -> int:
        return super().key(0, purpose)


class PerPosition(Noise):
    """Broken: accept and residual read one stream."""

    def key(self, position: int, purpose: Purpose) -> int:
        shared = Purpose.ACCEPT if purpose is Purpose.RESIDUAL else purpose
        return super().key(position, shared)


class DraftIsAccept(Noise):
    """Broken: the drafter's draw and the test of it read one stream."""

    def key(self, position: int, purpose: Purpose) -> int:
        shared = Purpose.ACCEPT if purpose is Purpose.DRAFT else purpose
        return super().key(position, shared)


class NextPosition(Noise):
    """Broken: a position's accept number is the residual number of the one before it."""

    def key(self, position: int, purpose: Purpose) -> int:
        if purpose is Purpose.ACCEPT:
            return super().key(position - 1, Purpose.RESIDUAL)
        return super().key(position, purpose)


class AlwaysAccept(Noise):
    """Broken: the accept number is always 0."""

    def uniform(self, position: int, purpose: Purpose) -> float:
        return 0.0 if purpose is Purpose.ACCEPT else super().uniform(position, purpose)


@pytest.mark.parametrize(
    "broken", [SamePosition, PerPosition, DraftIsAccept, NextPosition, AlwaysAccept]
)
def test_broken_noise_is_seen_under_rejection(broken: type[Noise]) -> None:
    target = chain()
    propose = honest_draws(target, 2)
    texts = [rejection_text(target, propose, broken(s), PROMPT, LENGTH) for s in range(3000)]
    assert misfit(texts, target.distribution(PROMPT, LENGTH)) > 5


def test_broken_noise_is_seen_under_the_coupled_rule() -> None:
    target = chain()
    propose = noise_reader(target, 3)
    texts = [coupled_text(target, propose, SamePosition(s), PROMPT, LENGTH)[0] for s in range(2000)]
    assert misfit(texts, target.distribution(PROMPT, LENGTH)) > 5


def test_a_dishonest_draw_is_seen() -> None:
    """Rejection is exact for any q only if the draft is drawn from it: the most likely is not."""
    target = chain()
    model = ToyChain(target.V, Sampling(temperature=1.5), seed=9)

    def propose(text: Text, noise: Noise) -> Proposal:
        q = model.support(text)
        return [int(q.ids[q.p.argmax()])], [q]

    texts = [rejection_text(target, propose, Noise(s), PROMPT, LENGTH) for s in range(3000)]
    assert misfit(texts, target.distribution(PROMPT, LENGTH)) > 5


def test_the_wrong_chain_is_seen() -> None:
    """Penalties that see only the committed text, not the draft before a row, are found out."""
    target = chain()

    stale = Sampling(temperature=SAMPLING.temperature, top_k=4, top_p=0.98)
    late = ToyChain(target.V, stale, target.seed)

    class SharedHistory(ToyChain):
        def rows(self, text: Text, draft: list[int]) -> list[Support]:  # type: ignore[override]
            texts = [(*text, *draft[:i]) for i in range(len(draft) + 1)]
            return [self.support(texts[0]), *(late.support(t) for t in texts[1:])]

    wrong = SharedHistory(target.V, SAMPLING, target.seed)
    propose = honest_draws(target, 2)
    texts = [rejection_text(wrong, propose, Noise(s), PROMPT, LENGTH) for s in range(3000)]
    assert misfit(texts, target.distribution(PROMPT, LENGTH)) > 5
