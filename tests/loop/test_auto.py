"""The window that is chosen in every step: the text is what it has to be, whatever is chosen."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.none import EmptyDrafter
from draftwalk.loop import Loop
from draftwalk.sequence import Request
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.step import Step
from draftwalk.window import Measured
from support.models import (
    BLOCK,
    ScriptedDrafter,
    drafter_checkpoint,
    random_drafter,
    target,
    windowed_target,
)
from support.recurrent import HybridTarget
from support.restless import RestlessWindows
from support.scripted import answer, finish, make_loop

AUTO = Window(auto=True)
PROMPT = [(7 * n * n + 3) % 160 for n in range(40)]
SAMPLING = Sampling(temperature=0.8, seed=3)
TARGETS: dict[str, Callable[[], object]] = {
    "full": lambda: target("llama-rope3"),
    "mixed": lambda: windowed_target(8, full=True),
    "hybrid": HybridTarget,
}
CHEAP = Measured({rows: 1.0 + 0.01 * rows for rows in range(1, BLOCK + 1)})
DEAR = Measured({rows: 1.0 * rows for rows in range(1, BLOCK + 1)})


def drafter_for(model, sliding: bool = True, causal: bool = False):
    kinds = ("sliding_attention" if sliding else "full_attention", "full_attention")
    checkpoint = drafter_checkpoint(
        160, 48, taps=(model.depth - 1, 0), selector=True, layer_types=kinds, causal=causal
    )
    return random_drafter(checkpoint, model)


def priced(loop: Loop, found: Measured, draft: float) -> Loop:
    """A loop whose costs are given and stay so."""
    loop.windows.measured(found)
    loop.windows.costs.drafts.set(BLOCK, draft)
    loop.windows.spent = lambda _: None  # type: ignore[method-assign]
    return loop


class TurningDrafter(ScriptedDrafter):
    """Is wrong up to a place of the text, and not sure; from there on it is right, and surer."""

    turn = 110

    def _draft(self, request: DraftRequest) -> Draft:
        right = len(request.history) >= self.turn
        self._script = (BLOCK,) if right else (0,)
        draft = super()._draft(request)
        return replace(draft, confidence=(0.95 if right else 0.3,) * len(draft.tokens))


def told(steps: list[Step]) -> list[tuple[object, ...]]:
    return [(s.draft, s.accepted, s.tokens, s.finish_reason) for s in steps if s.tokens]


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLING], ids=["greedy", "seeded"])
def test_off_and_on_again(sampling: Sampling) -> None:
    """A text that cannot be drafted, then can: off, probes, on; the text is plain decoding's."""
    model = target("llama-rope3")
    request = Request(PROMPT, sampling, Limits(250), AUTO)
    plain, _ = answer(make_loop(model, EmptyDrafter()), request)
    drafter = TurningDrafter({0: plain.tokens}, (0,), 160)
    loop = priced(make_loop(model, drafter), CHEAP, draft=0.6)
    text, steps = answer(loop, request)
    assert text.generated == plain.generated
    asked = [bool(step.asked) for step in steps if not step.prompt_rows]
    assert all(asked[:8])
    given_up = asked.index(False)
    assert given_up < 30
    assert any(asked[given_up:100]), "probes"
    assert all(asked[-10:-2]), "it pays, so it is taken up again"
    assert len(steps) < 200
    assert loop.backlog.length(text.slot) == text.processed


@pytest.mark.parametrize("causal", [False, True], ids=["two-way", "causal"])
@pytest.mark.parametrize("name", TARGETS)
def test_auto_is_lossless_in_company(name: str, causal: bool) -> None:
    """Texts of every kind of window, which come and go; the same loop goes on."""
    model = TARGETS[name]()
    loop = priced(make_loop(model, drafter_for(model, causal=causal), 400), CHEAP, draft=0.3)
    cut = [Window(auto=True, p_min=0.9), Window(auto=True, n_min=4)]
    windows = [AUTO, Window(3), AUTO, Window(0), Window(auto=True, n_max=2, p_min=0.1), *cut]
    requests = [
        Request(PROMPT[: 3 + 7 * n], Sampling(temperature=0.7, seed=n), Limits(12 + 9 * n), window)
        for n, window in enumerate(windows)
    ]
    for _ in range(2):
        sequences = []
        for request in requests:
            sequences.append(loop.admit(request))
            loop.step()
        while loop.busy:
            loop.step()
        for sequence, request in zip(sequences, requests, strict=True):
            alone, _ = answer(make_loop(model, EmptyDrafter(), 400), request)
            assert sequence.generated == alone.generated
            loop.release(sequence)


@pytest.mark.parametrize("cost", [0.01, 5.0])
def test_rejection_beside_auto_asks_for_what_it_does_alone(cost: float) -> None:
    """Lengths of drafts under auto follow clocks, and must not take those under rejection along."""
    model = target("llama-rope3")
    rejection = Sampling(temperature=0.9, seed=3, rule="rejection")
    request = Request(PROMPT, rejection, Limits(60), AUTO)
    alone, steps = answer(make_loop(model, drafter_for(model, causal=True), 400), request)
    loop = priced(make_loop(model, drafter_for(model, causal=True), 400), CHEAP, draft=cost)
    beside = loop.admit(Request(PROMPT[:9], Sampling(), Limits(120), AUTO))
    found = loop.admit(request)
    while loop.busy:
        loop.step()
    assert beside.error is None
    assert found.generated == alone.generated
    assert [step.asked for step in found.steps] == [step.asked for step in steps]


def test_limits_hold_for_auto() -> None:
    model = target("llama-rope3")
    plain, _ = answer(make_loop(model, EmptyDrafter()), Request(PROMPT, limits=Limits(40)))
    for n_max in range(BLOCK + 2):
        window = Window(n_max, auto=True)
        drafter = ScriptedDrafter({0: plain.tokens}, (BLOCK,), 160)
        loop = priced(make_loop(model, drafter), CHEAP, draft=0.1)
        text, steps = answer(loop, Request(PROMPT, limits=Limits(40), window=window))
        assert text.generated == plain.generated
        widest = max(len(step.draft) for step in steps)
        assert widest == min(n_max, BLOCK - 1)
        assert all(len(step.confidence) == len(step.draft) <= step.asked for step in steps)


@pytest.mark.parametrize("first", [Window(0), AUTO, "restless"], ids=str)
@pytest.mark.parametrize("cut", [10, 63, 64, 70, 99, 200])
@pytest.mark.parametrize("sliding", [False, True], ids=["full", "sliding"])
def test_the_next_turn_after_features_waited(first, cut: int, sliding: bool) -> None:
    """A turn that never drafted, or only at times; the next one drafts as if nothing had waited."""
    model = target("llama-rope3")
    loop = make_loop(model, drafter_for(model, sliding), 400)
    if first == "restless":
        loop.windows = RestlessWindows(BLOCK - 1, seed=cut)
        first = AUTO
    else:
        priced(loop, DEAR, draft=2.0)
    before, _ = answer(loop, Request(PROMPT, SAMPLING, Limits(75), first))
    following = Request([*before.tokens[:cut], 150, 3, 7], SAMPLING, Limits(20))
    text = loop.follow(before, following)
    if isinstance(loop.windows, RestlessWindows):
        loop.windows = make_loop(model, loop.drafter).windows
        loop.windows.begin(text.slot, Window(), SAMPLING)
    steps = finish(loop, text)
    fresh, expected = answer(make_loop(model, drafter_for(model, sliding), 400), following)
    assert text.generated == fresh.generated
    assert told(steps) == told(expected)
    assert any(step.draft for step in steps)


def test_what_passes_cost_is_looked_at_once_and_leaves_no_trace() -> None:
    model = target("llama-rope3")
    loop = make_loop(model, drafter_for(model))
    answer(loop, Request(PROMPT, limits=Limits(6), window=Window(4)))
    assert not loop.windows.costs.passes, "nobody needs it"
    text, steps = answer(loop, Request(PROMPT, limits=Limits(6), window=AUTO))
    assert {1, BLOCK} <= {rows for rows in range(1, BLOCK + 1) if rows in loop.windows.costs.passes}
    pages = [kind.pages_in_use for kind in loop.state.kinds]
    answer(loop, Request(PROMPT, limits=Limits(6), window=AUTO))
    assert [kind.pages_in_use for kind in loop.state.kinds] == [n * 3 // 2 for n in pages]
    alone, _ = answer(make_loop(model, EmptyDrafter()), Request(PROMPT, limits=Limits(6)))
    assert text.generated == alone.generated
    assert sum(step.prompt_rows for step in steps) == len(PROMPT)


def test_a_seed_has_one_text_under_rejection() -> None:
    """Auto looks at the text's own past only, so neither company nor costs are seen in it."""
    model = target("qwen3")
    requests = [
        Request(PROMPT[: 5 + 9 * n], Sampling(0.9, seed=n, rule="rejection"), Limits(60), AUTO)
        for n in range(3)
    ]
    together = priced(make_loop(model, drafter_for(model)), CHEAP, draft=0.1)
    other = [together.admit(Request(PROMPT, SAMPLING, Limits(80), AUTO))]
    sequences = [together.admit(request) for request in requests]
    while together.busy:
        together.step()
    del other
    for sequence, request in zip(sequences, requests, strict=True):
        loop = priced(make_loop(model, drafter_for(model)), DEAR, draft=9.0)
        alone, steps = answer(loop, request)
        assert sequence.generated == alone.generated
        assert told(sequence.steps) == told(steps)
        asked = [step.asked for step in steps if not step.prompt_rows]
        assert len(set(asked)) > 2, "its window changes"
