"""Speculative text equals plain text, and drafts do not depend on company: float64 throughout.

Cases are drawn so that every value and every pair of values of the dimensions below occurs, then a
few dozen more at random. `pytest -m exhaustive` runs the whole product. Among the windows are auto
and "restless", which does in any step whatever a window that is chosen may do.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache

import pytest

from draftwalk.draft import Drafter
from draftwalk.draft.none import EmptyDrafter
from draftwalk.loop import Loop
from draftwalk.sequence import Request
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.state.pages import PagedKV
from draftwalk.step import Step
from support.models import BLOCK, ScriptedDrafter, drafter_checkpoint, random_drafter, target
from support.recurrent import HybridTarget
from support.restless import RestlessWindows

TARGETS = ("llama-rope3", "qwen2", "qwen3", "gemma3", "hybrid")
DRAFTERS = (
    "dflash",
    "dflash-sliding",
    "dflash2",
    "dflash2-sliding",
    "dflash2-causal",
    "scripted",
)
AUTO, RESTLESS = "auto", "restless"
WINDOWS = (*range(BLOCK + 6), AUTO, RESTLESS)  # block + 5: over what the block has
SAMPLINGS = ("greedy", "seeded", "filtered", "penalised")
CHUNKS = (1, 7, 512)
PROMPT_LENGTHS = (1, 2, 9, 30, 57, 60, 63, 64, 122, 127)  # texts and drafts cross pages
BATCHES = tuple(range(1, 9))
ARRIVALS = ("together", "one by one")
SCRIPTS = (*((n,) for n in range(BLOCK)), (5, 0, 3, 1))

SAMPLING = {
    "greedy": Sampling(),
    "seeded": Sampling(temperature=0.8),
    "filtered": Sampling(temperature=1.1, top_k=20, top_p=0.9, min_p=0.02),
    "penalised": Sampling(
        temperature=0.7,
        repeat_penalty=1.3,
        repeat_last_n=9,
        presence_penalty=0.4,
        frequency_penalty=0.3,
        logit_bias={5: 2.0, 7: -float("inf")},
    ),
}


@dataclass(frozen=True)
class Case:
    target: str
    drafter: str
    window: int | str
    sampling: str
    chunk: int
    batch: int
    arrival: str
    script: tuple[int, ...]


VALUES = (TARGETS, DRAFTERS, WINDOWS, SAMPLINGS, CHUNKS, BATCHES, ARRIVALS, SCRIPTS)


def drawn_cases(seed: int, extra: int) -> list[Case]:
    """Enough cases for all pairs, chosen greedily among random ones, and `extra` more."""
    rng = random.Random(seed)
    pairs = {
        (i, a, j, b)
        for i, j in itertools.combinations(range(len(VALUES)), 2)
        for a in VALUES[i]
        for b in VALUES[j]
    }

    def covered(values: tuple[object, ...]) -> set[tuple[int, object, int, object]]:
        return {
            (i, values[i], j, values[j]) for i, j in itertools.combinations(range(len(VALUES)), 2)
        }

    cases = []
    while pairs:
        i, a, j, b = min(pairs, key=repr)
        tries = []
        for _ in range(30):
            values = [rng.choice(options) for options in VALUES]
            values[i], values[j] = a, b
            tries.append(tuple(values))
        best = max(tries, key=lambda values: len(pairs & covered(values)))
        pairs -= covered(best)
        cases.append(Case(*best))
    cases += [Case(*(rng.choice(options) for options in VALUES)) for _ in range(extra)]
    return cases


@cache
def make_target(name: str):
    return HybridTarget() if name == "hybrid" else target(name)


@cache
def checkpoint(name: str, depth: int):
    sliding = name.endswith("sliding")
    return drafter_checkpoint(
        160,
        48,
        taps=(depth - 1, 0),
        selector=name.startswith("dflash2"),
        layer_types=("sliding_attention", "full_attention") if sliding else ("full_attention",) * 2,
        causal=None if sliding else name.endswith("causal"),
    )


def request(case: Case, n: int) -> Request:
    """The nth request of a case: prompts and lengths differ, and so do seeds."""
    rng = random.Random(f"{n} {case.sampling}")
    prompt = [rng.randrange(160) for _ in range(rng.choice(PROMPT_LENGTHS))]
    sampling = SAMPLING[case.sampling]
    values = {f.name: getattr(sampling, f.name) for f in fields(sampling)}
    sampling = Sampling(**{**values, "seed": 1000 + n})
    limits = Limits(max_tokens=rng.choice((1, 2, 7, 16)))
    window = Window(case.window) if isinstance(case.window, int) else Window(auto=True)
    return Request(prompt, sampling, limits, window, frozenset({11, 12}))


def run(
    loop: Loop, requests: list[Request], together: bool
) -> tuple[list[list[int]], list[list[Step]], list[str | None]]:
    """Texts, steps and finish reasons, in the order of the requests."""
    sequences, waiting = [], list(requests)
    while waiting or loop.busy:
        if waiting:
            for one in waiting if together else waiting[:1]:
                sequences.append(loop.admit(one))
            waiting = [] if together else waiting[1:]
        if loop.busy:
            loop.step()
    texts = [sequence.generated for sequence in sequences]
    steps = [sequence.steps for sequence in sequences]
    reasons = [sequence.finish_reason for sequence in sequences]
    for sequence in sequences:
        loop.release(sequence)
    pages = [kind for kind in loop.state.kinds if isinstance(kind, PagedKV)]
    assert pages
    assert all(kind.pages_in_use == 0 for kind in pages)
    return texts, steps, reasons


@cache
def plain(target_name: str, sampling: str, n: int) -> tuple[list[int], str | None]:
    case = Case(target_name, "none", 0, sampling, 512, 1, "together", (0,))
    loop = Loop(make_target(target_name), EmptyDrafter(), 256)
    texts, _, reasons = run(loop, [request(case, n)], True)
    return texts[0], reasons[0]


def make_drafter(case: Case, numbers: range) -> Drafter:
    model = make_target(case.target)
    if case.drafter != "scripted":
        return random_drafter(checkpoint(case.drafter, model.depth), model)
    texts = {
        slot: [*request(case, n).prompt, *plain(case.target, case.sampling, n)[0]]
        for slot, n in enumerate(numbers)
    }
    return ScriptedDrafter(texts, case.script, 160)


def check(case: Case) -> None:
    model = make_target(case.target)
    numbers = range(case.batch)
    requests = [request(case, n) for n in numbers]
    loop = Loop(model, make_drafter(case, numbers), 256, case.chunk)
    if case.window == RESTLESS:
        loop.windows = RestlessWindows(BLOCK - 1, seed=case.batch)
    texts, steps, reasons = run(loop, requests, case.arrival == "together")
    for n in numbers:
        assert (texts[n], reasons[n]) == plain(case.target, case.sampling, n)
        check_counts(steps[n], texts[n], case)
    if isinstance(case.window, str):
        return  # which windows there are depends on the others, and on times
    for n in {0, case.batch - 1}:
        loop = Loop(model, make_drafter(case, range(n, n + 1)), 256)
        alone_texts, alone, _ = run(loop, [requests[n]], True)
        assert alone_texts[0] == texts[n]
        decoding = [(s.draft, s.accepted, s.tokens) for s in steps[n] if s.tokens]
        assert decoding == [(s.draft, s.accepted, s.tokens) for s in alone[0] if s.tokens]


def check_counts(steps: list[Step], text: list[int], case: Case) -> None:
    """Counters add up, and a scripted drafter is accepted exactly as scripted."""
    assert sum(len(step.tokens) for step in steps) == len(text)
    decoding = 0
    for step in steps:
        assert step.tokens or step.prompt_rows, "a step with no prompt to read gains a token"
        most = case.window if isinstance(case.window, int) else BLOCK
        assert step.accepted <= len(step.draft) <= min(most, BLOCK - 1)
        assert len(step.draft) <= step.asked
        assert len(step.tokens) in (0, step.accepted, step.accepted + 1)
        assert step.tokens[: step.accepted] == step.draft[: step.accepted]
        if case.drafter == "scripted" and step.draft and step.finish_reason is None:
            right = case.script[decoding % len(case.script)]
            assert step.accepted == min(right, len(step.draft))
        decoding += bool(step.asked)


CASES = drawn_cases(seed=5, extra=70)


@pytest.mark.parametrize("part", range(8))
def test_drawn_cases(part: int) -> None:
    for case in CASES[part::8]:
        try:
            check(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error


def test_draws_cover_every_pair() -> None:
    seen = [
        {(case.__dict__[a.name], case.__dict__[b.name]) for case in CASES}
        for a, b in itertools.combinations(fields(Case), 2)
    ]
    wanted = [len(a) * len(b) for a, b in itertools.combinations(VALUES, 2)]
    assert [len(pairs) for pairs in seen] == wanted


def product() -> Iterator[Case]:
    for values in itertools.product(*VALUES):
        case = Case(*values)
        if case.drafter == "scripted" or case.script == SCRIPTS[0]:
            yield case


@pytest.mark.exhaustive
def test_whole_product() -> None:
    for case in product():
        check(case)
