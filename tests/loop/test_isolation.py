"""Nothing of one request is visible in another: failures, company, slots, other loops."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch

from draftwalk.draft import Drafter, load
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.none import EmptyDrafter
from draftwalk.errors import CheckpointError, NumericalError
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.rows import Rows
from draftwalk.sequence import Request
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.state import State
from draftwalk.target import PassOutput, Target
from draftwalk.weights import pack_tensor
from support.models import (
    MadeCheckpoint,
    ScriptedDrafter,
    drafter_checkpoint,
    random_drafter,
    target,
    windowed_target,
)
from support.recurrent import HybridTarget
from support.scripted import answer, make_loop

CONTEXT = 256
BAD_VALUES = (float("nan"), float("inf"), -float("inf"))
SAMPLINGS = (Sampling(seed=8), Sampling(temperature=0.8, seed=8), Sampling(0.9, top_k=9, seed=8))
PROMPTS = [[1, 2, 3], [40, 41, 42, 43, 44, 45, 46], [9], [77] * 20]


def checkpoint(selector: bool = True, context: int = 512) -> MadeCheckpoint:
    return drafter_checkpoint(
        160,
        48,
        (0, 1),
        selector,
        layer_types=("sliding_attention", "full_attention"),
        context=context,
    )


def drafter_of(model, selector: bool = True, context: int = 512) -> BlockDrafter:
    return random_drafter(checkpoint(selector, context), model)


def request(n: int, sampling: Sampling = SAMPLINGS[1], tokens: int = 12) -> Request:
    seeded = replace(sampling, seed=100 + n)
    return Request(PROMPTS[n % len(PROMPTS)], seeded, Limits(tokens))


def plain(model: Target[State], one: Request) -> list[int]:
    return answer(make_loop(model, EmptyDrafter(), CONTEXT), one)[0].generated


@cache
def known(n: int, sampling: int) -> list[int]:
    """Plain texts of the target that most tests here use."""
    return plain(target("llama-rope3"), request(n, SAMPLINGS[sampling]))


class Poisoned:
    """A target whose logits and features turn bad in one slot from one place on."""

    def __init__(self, model, slot: int, place: int, value: float) -> None:
        self._model = model
        self.slot, self.place, self.value = slot, place, value
        self.vocabulary, self.width, self.depth = model.vocabulary, model.width, model.depth
        self.context, self.tables, self.ops = model.context, model.tables, model.ops

    def new_state(self):
        return self._model.new_state()

    def forward(self, rows: Rows, state, taps: tuple[int, ...]) -> PassOutput:
        out = self._model.forward(rows, state, taps)
        bad = (rows.sequences == self.slot) & (rows.places >= self.place)
        out.features[bad] = self.value
        out.logits[bad[rows.wanted]] = self.value
        return PassOutput(out.logits, out.features, self.ops.argmax(out.logits))


@pytest.mark.parametrize(
    ("value", "sampling"), [(BAD_VALUES[0], 0), (BAD_VALUES[1], 1), (BAD_VALUES[2], 2)]
)
@pytest.mark.parametrize(
    ("drafting", "place"),
    [("right", 0), ("right", 6), ("right", 9), ("right", 14), ("random", 9), ("none", 14)],
)
def test_a_bad_row_ends_its_sequence_only(
    drafting: str, place: int, value: float, sampling: int
) -> None:
    model = target("llama-rope3")
    poisoned = Poisoned(model, 1, place, value)
    drafter: Drafter = EmptyDrafter()
    if drafting == "random":
        drafter = drafter_of(model)
    if drafting == "right":
        texts = {n: [*PROMPTS[n], *known(n, sampling)] for n in range(4)}
        drafter = ScriptedDrafter(texts, (5,), 160)
    loop = make_loop(poisoned, drafter, CONTEXT)
    sequences = [loop.admit(request(n, SAMPLINGS[sampling])) for n in range(4)]
    while loop.busy:
        loop.step()
    for n in (0, 2, 3):
        assert sequences[n].generated == known(n, sampling)
        assert sequences[n].finish_reason == "length"
    assert sequences[1].finish_reason == "error"
    assert isinstance(sequences[1].error, NumericalError)
    # What was certain before the bad row is text, as it is without a draft.
    certain = max(0, place - len(PROMPTS[1]) + 1)
    assert sequences[1].generated == known(1, sampling)[:certain]
    # The slot may be used again, and so may the memory.
    poisoned.slot = -1
    for sequence in sequences[:2]:
        loop.release(sequence)
    for n in range(2):
        sequence, _ = answer(loop, request(n, SAMPLINGS[sampling]))
        assert sequence.generated == known(n, sampling)


class OneBadToken:
    """A target that is not to be read beyond a token: its row says nothing finite."""

    def __init__(self, model, token: int) -> None:
        self._model, self.token = model, token
        self.vocabulary, self.width, self.depth = model.vocabulary, model.width, model.depth
        self.context, self.tables, self.ops = model.context, model.tables, model.ops

    def new_state(self):
        return self._model.new_state()

    def forward(self, rows: Rows, state, taps: tuple[int, ...]) -> PassOutput:
        out = self._model.forward(rows, state, taps)
        out.logits[rows.tokens[rows.wanted] == self.token] = torch.nan
        return PassOutput(out.logits, out.features, self.ops.argmax(out.logits))


@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_bad_rows_behind_a_stop_or_a_rejected_token_do_not_count(rule) -> None:
    model = target("llama-rope3")
    greedy = Request(PROMPTS[0], Sampling(rule=rule), Limits(12))
    text = plain(model, greedy)
    unsaid = next(token for token in range(160) if token not in text)
    # A wrong draft that holds the bad token.
    spoiled = OneBadToken(model, unsaid)
    script = [*PROMPTS[0], *text[:5], unsaid, *text[6:]]
    loop = make_loop(spoiled, ScriptedDrafter({0: script}, (5,), 160), CONTEXT)
    assert answer(loop, greedy)[0].generated == text
    # The bad token is the stop: accepted, and nothing is asked of the row behind it.
    spoiled = OneBadToken(model, text[3])
    loop = make_loop(spoiled, ScriptedDrafter({0: [*PROMPTS[0], *text]}, (5,), 160), CONTEXT)
    ended, steps = answer(loop, replace(greedy, stop_ids=frozenset({text[3]})))
    assert (ended.generated, ended.finish_reason) == (text[:4], "stop")
    assert len(steps[1].draft) > 3, "rows behind the stop were in the pass"


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_rejected_row_is_not_seen_by_rows_before_it(bad: float) -> None:
    """Not even as nought times not-a-number, if a token's own embedding is broken."""
    model = HybridTarget()
    greedy = Request(PROMPTS[1], Sampling(), Limits(12))
    text = plain(model, greedy)
    unsaid = next(token for token in range(160) if token not in text + PROMPTS[1])
    model.tables.embedding.weight[unsaid] = bad
    script = [*PROMPTS[1], *text]
    for right in range(5):
        drafts = ScriptedDrafter({0: script}, (right,), 160, wrong=unsaid)
        ended, steps = answer(make_loop(model, drafts, CONTEXT), greedy)
        assert ended.generated == text
        assert steps[1].accepted == right
        assert unsaid in steps[1].draft


class Failing:
    """A drafter or target whose pass fails once, when told to."""

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call
        self.armed = True

    def __call__(self, *args: object) -> object:
        result = self._call(*args)
        if self.armed:
            self.armed = False
            raise MemoryError
        return result


@pytest.mark.parametrize("where", ["forward", "propose", "observe"])
def test_a_step_that_fails_leaves_the_next_request_unharmed(where: str) -> None:
    model = HybridTarget()
    drafter = drafter_of(model)
    loop = make_loop(model, drafter, CONTEXT)
    doomed = loop.admit(request(0))
    loop.step()
    owner = model if where == "forward" else drafter
    setattr(owner, where, Failing(getattr(owner, where)))
    with pytest.raises(MemoryError):
        loop.step()
    loop.release(doomed)
    for n in range(3):
        text, steps = answer(loop, request(n))
        assert text.generated == plain(HybridTarget(), request(n))
        assert any(step.draft for step in steps)
        loop.release(text)


@pytest.mark.parametrize("where", ["forward", "propose"])
def test_a_step_that_failed_can_be_taken_again(where: str) -> None:
    model = HybridTarget()
    drafter = drafter_of(model)
    loop = make_loop(model, drafter, CONTEXT)
    texts = [loop.admit(request(n)) for n in range(3)]
    loop.step()
    owner = model if where == "forward" else drafter
    for _ in range(3):
        setattr(owner, where, Failing(getattr(owner, where)))
        with pytest.raises(MemoryError):
            loop.step()
    while loop.busy:
        loop.step()
    for n, text in enumerate(texts):
        assert text.generated == plain(HybridTarget(), request(n))


def test_a_failure_after_texts_have_grown_ends_the_texts_of_that_step() -> None:
    model = HybridTarget()
    drafter = drafter_of(model)
    loop = make_loop(model, drafter, CONTEXT)
    texts = [loop.admit(request(n)) for n in range(3)]
    loop.step()
    drafter.observe = Failing(drafter.observe)
    with pytest.raises(MemoryError):
        loop.step()
    assert [text.finish_reason for text in texts] == ["error"] * 3
    assert not loop.busy
    followed = loop.follow(texts[0], request(0))  # the slot can be gone on with
    while loop.busy:
        loop.step()
    assert followed.generated == plain(model, request(0))
    for text in (followed, *texts[1:]):
        loop.release(text)
    text, steps = answer(loop, request(4))
    assert text.generated == plain(model, request(4))
    assert any(step.draft for step in steps)


@pytest.mark.parametrize("selector", [True, False])
def test_a_drafter_of_less_context_stops_drafting_there(selector: bool) -> None:
    model = windowed_target(8, full=True)
    drafter = drafter_of(model, selector, context=32)
    loop = make_loop(model, drafter, CONTEXT, chunk=13)
    long = Request(PROMPTS[1], Sampling(temperature=0.7, seed=1), Limits(50))
    text, steps = answer(loop, long)
    assert text.generated == plain(model, long)
    place = len(PROMPTS[1])
    drafted_to = 0
    for step in steps:
        if step.draft:
            drafted_to = place
        assert not step.draft or place - 1 + drafter.block <= 32
        place += len(step.tokens)
    assert drafted_to > 20, "it drafted as far as a block fits"
    # A prompt beyond it, and then again one within.
    beyond = Request([5] * 60, Sampling(), Limits(10))
    text, steps = answer(loop, beyond)
    assert text.generated == plain(model, beyond)
    assert not any(step.draft for step in steps)
    text, steps = answer(loop, request(0))
    assert text.generated == plain(model, request(0))
    assert any(step.draft for step in steps), "being off was not for ever"


@pytest.mark.parametrize("chunk", [7, 512])
def test_several_texts_at_the_end_of_their_context(chunk: int) -> None:
    """A block that does not fit any more in one sequence is no matter of the others."""
    model = windowed_target(8, full=True)
    loop = make_loop(model, drafter_of(model, context=64), context=64, chunk=chunk)
    requests = [
        Request(list(range(n, n + size)), Sampling())
        for n, size in enumerate((50, 56, 62, 63, 64, 65, 50))
    ]
    texts = [loop.admit(one) for one in requests]
    while loop.busy:
        loop.step()
    for text, one in zip(texts, requests, strict=True):
        alone, _ = answer(make_loop(model, EmptyDrafter(), 64), one)
        assert text.generated == alone.generated
        assert len(text.tokens) == max(64, len(one.prompt))
        assert text.finish_reason == "length"


def test_a_sequence_that_is_released_midway() -> None:
    model = target("gemma3")
    loop = make_loop(model, drafter_of(model), CONTEXT, chunk=8)
    texts = [loop.admit(request(n)) for n in range(4)]
    for _ in range(3):
        loop.step()
    loop.release(texts[3])  # its prompt is not read yet
    loop.release(texts[1])
    late = loop.admit(request(5))
    assert late.slot == 1, "free slots are used first"
    while loop.busy:
        loop.step()
    for n, text in ((0, texts[0]), (2, texts[2]), (5, late)):
        assert text.generated == plain(model, request(n))
        loop.release(text)
    assert [kind.pages_in_use for kind in loop.state.kinds] == [0, 0]
    assert [kind.pages_in_use for kind in loop.drafter.state.kinds] == [0, 0]


@pytest.mark.parametrize(
    ("selector", "window"),
    [(True, Window(p_min=0.2)), (False, Window()), (True, Window(p_min=1.0))],
)
def test_the_same_prompt_five_times(window: Window, selector: bool) -> None:
    model = target("qwen3")
    loop = make_loop(model, drafter_of(model, selector), CONTEXT)
    seen = []
    for n in range(5):
        one = replace(request(1), window=window)
        text, steps = answer(loop, one)
        seen.append((text.generated, [(step.draft, step.accepted) for step in steps]))
        loop.release(text)
        if n % 2:  # another text in between, in the same slot
            other, _ = answer(loop, request(2))
            loop.release(other)
    assert all(one == seen[0] for one in seen)
    assert seen[0][0] == plain(model, request(1))
    if window.p_min == 1.0:
        assert not any(draft for draft, _ in seen[0][1]), "a random drafter is never certain"


def test_two_loops_over_one_target() -> None:
    model = target("llama-rope3")
    loops = [
        make_loop(model, drafter_of(model), CONTEXT),
        make_loop(model, drafter_of(model, selector=False), CONTEXT, chunk=2),
        make_loop(model, EmptyDrafter(), CONTEXT),
    ]
    texts = [loop.admit(request(n)) for n, loop in enumerate(loops)]
    while any(loop.busy for loop in loops):
        for loop in loops:
            if loop.busy:
                loop.step()
    for n, text in enumerate(texts):
        assert text.generated == plain(model, request(n))


def test_a_seed_is_a_text_in_any_company() -> None:
    model = target("qwen2")
    alone = plain(model, request(1))
    for company in ([1, 1], [0, 1, 2, 3], [2, 1, 0, 0, 0, 0, 0]):
        loop = make_loop(model, drafter_of(model), CONTEXT)
        texts = [loop.admit(request(n)) for n in company]
        while loop.busy:
            loop.step()
        assert texts[company.index(1)].generated == alone


@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_choices_of_one_seed_are_different_texts(rule) -> None:
    model = target("qwen2")
    loop = make_loop(model, drafter_of(model), CONTEXT)
    one = Request([3, 4], Sampling(temperature=1.0, seed=5, rule=rule), Limits(12))
    choices = [loop.admit(replace(one, choice=n)) for n in range(6)]
    while loop.busy:
        loop.step()
    assert len({tuple(text.generated) for text in choices}) == 6
    if rule == "coupled":
        for n, text in enumerate(choices):
            assert text.generated == plain(model, replace(one, choice=n))


def spoiled(made: MadeCheckpoint, names: Sequence[str], value: float) -> MadeCheckpoint:
    """The checkpoint with some tensors full of one value."""
    tensors = dict(made.tensors)
    for name in names:
        values = tensors[name].unpack()
        values[...] = value
        tensors[name] = pack_tensor(name, values, F32)
    return replace(made, tensors=tensors)


@pytest.mark.parametrize(
    ("value", "rule"), [(torch.nan, "coupled"), (torch.nan, "rejection"), (torch.inf, "coupled")]
)
@pytest.mark.parametrize(
    ("selector", "name"),
    [
        (True, "norm.weight"),
        (True, "candidate_selector.successor_codebook"),
        (True, "layers.0.attention_conv.base_kernel"),
        (False, "norm.weight"),
        (False, "layers.1.self_attn.v_proj.weight"),
    ],
)
def test_a_drafter_of_bad_weights_does_no_harm(
    selector: bool, name: str, rule, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a checkpoint is refused by name; here the values go bad behind that."""
    model = target("llama-rope3")
    with pytest.raises(CheckpointError, match=f"tensor {name} has values that are not finite"):
        random_drafter(spoiled(checkpoint(selector), [name], value), model)
    monkeypatch.setattr(load, "_check_finite", lambda checkpoint: None)
    bad = random_drafter(spoiled(checkpoint(selector), [name], value), model)
    loop = make_loop(model, bad, CONTEXT)
    for sampling in SAMPLINGS:
        one = request(1, replace(sampling, rule=rule), tokens=8)
        text, _ = answer(loop, one)
        assert text.finish_reason == "length"
        loop.release(text)
        if rule == "coupled" or sampling.greedy:
            assert text.generated == known(1, SAMPLINGS.index(sampling))[:8]


def test_a_drafter_that_is_fed_bad_features_is_well_again_for_the_next() -> None:
    model = target("llama-rope3")
    drafter = drafter_of(model)
    expected = [step.draft for step in answer(make_loop(model, drafter_of(model)), request(0))[1]]
    loop = make_loop(Poisoned(model, 0, 0, torch.nan), drafter, CONTEXT)
    failed = loop.admit(request(3))
    loop.step()
    assert failed.finish_reason == "error"
    loop.release(failed)
    loop = make_loop(model, drafter, CONTEXT)
    text, steps = answer(loop, request(0))
    assert text.generated == plain(model, request(0))
    assert [step.draft for step in steps] == expected
