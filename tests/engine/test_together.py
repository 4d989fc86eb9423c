"""Several users of one engine: nobody loses text, waits for nothing, or fails for another."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest

import pytest

from draftwalk.engine import Engine
from draftwalk.errors import PromptError, UserError
from draftwalk.result import Result, pass_times
from draftwalk.settings import Limits, Sampling
from draftwalk.step import Step
from support.talking_model import VOCABULARY, ids_of

PROMPTS = [ids_of(text) for text in ("hello", "a longer prompt than that", "hi", "x")]
LIMITS = Limits(20)
SEEDED = Sampling(temperature=1.0, seed=4)
MUTE = Sampling(logit_bias=dict.fromkeys(range(VOCABULARY), -float("inf")))


def alone(engine: Engine, prompt: list[int], sampling: Sampling = SEEDED) -> Result:
    (result,) = engine.complete([prompt], sampling, LIMITS)
    return result


def stream(engine: Engine, prompt: list[int], sampling: Sampling = SEEDED) -> Iterator[Step]:
    return engine.stream(prompt, sampling, LIMITS)


def text(steps: list[Step]) -> str:
    return "".join(step.text for step in steps)


def test_threads_share_an_engine(engine: Engine) -> None:
    wanted = [[alone(engine, prompt).tokens for prompt in PROMPTS]] * 4
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(engine.complete, PROMPTS, SEEDED, LIMITS) for _ in range(4)]
        found = [[result.tokens for result in one.result()] for one in asked]
    assert found == wanted


@pytest.mark.parametrize("turns", [(1, 1), (1, 3), (4, 1), (99, 1)])
def test_alternating_streams_lose_nothing(engine: Engine, turns: tuple[int, int]) -> None:
    wanted = [alone(engine, prompt).text for prompt in PROMPTS[:2]]
    streams = [stream(engine, prompt) for prompt in PROMPTS[:2]]
    taken: list[list[Step]] = [[], []]
    over = object()
    for _ in range(99):
        for one, steps, count in zip(streams, taken, turns, strict=True):
            for _ in range(count):
                if (step := next(one, over)) is not over:
                    steps.append(step)
    assert [text(steps) for steps in taken] == wanted
    assert [steps[-1].finish_reason for steps in taken] == ["length", "length"]
    assert not engine.loop.busy


def test_a_reader_that_comes_late_finds_its_text(engine: Engine) -> None:
    wanted = alone(engine, PROMPTS[0]).text
    late = stream(engine, PROMPTS[0])
    first = next(late)
    for _ in stream(engine, PROMPTS[1]):
        pass
    assert not engine.loop.busy
    assert text([first, *late]) == wanted


def test_a_batch_while_a_stream_is_open(engine: Engine) -> None:
    wanted = [alone(engine, prompt).tokens for prompt in PROMPTS]
    open_stream = stream(engine, PROMPTS[0])
    steps = [next(open_stream), next(open_stream)]
    results = engine.complete(PROMPTS[1:], SEEDED, LIMITS)
    assert [result.tokens for result in results] == wanted[1:]
    steps += open_stream
    assert tuple(token for step in steps for token in step.tokens) == wanted[0]


@pytest.mark.parametrize("parallel", [1, 2, 16])
def test_a_bad_prompt_is_refused_alone(engine: Engine, parallel: int) -> None:
    bad = {1: [], 2: [0] * 600, 4: [VOCABULARY]}
    prompts = [PROMPTS[0], bad[1], bad[2], PROMPTS[1], bad[4]]
    results = engine.complete(prompts, SEEDED, LIMITS, parallel=parallel)
    for number, (prompt, result) in enumerate(zip(prompts, results, strict=True)):
        if number in bad:
            assert result.finish_reason == "error"
            assert isinstance(result.error, PromptError)
            assert (result.text, result.tokens, result.steps) == ("", (), ())
        else:
            assert result.error is None
            assert result.tokens == alone(engine, prompt).tokens
    assert not engine.loop.busy


def test_no_more_are_answered_at_a_time_than_allowed(engine: Engine) -> None:
    texts = [alone(engine, prompt).tokens for prompt in PROMPTS]
    for parallel in (1, 2, 4, 16):
        results = engine.complete(PROMPTS, SEEDED, LIMITS, parallel=parallel)
        assert [result.tokens for result in results] == texts
        shares = [
            sum(any(step.times is times for step in result.steps) for result in results)
            for times in pass_times(results)
        ]
        assert max(shares) == min(parallel, len(PROMPTS))
        assert sum(shares) == sum(len(result.steps) for result in results)
    with pytest.raises(PromptError, match="parallel is 0"):
        engine.complete(PROMPTS, parallel=0)


def test_an_error_in_a_step_ends_its_own_text(engine: Engine) -> None:
    wanted = alone(engine, PROMPTS[1]).text
    failing, sound = stream(engine, PROMPTS[0], MUTE), stream(engine, PROMPTS[1])
    steps = [next(sound)]
    with pytest.raises(UserError):
        list(failing)
    assert text([*steps, *sound]) == wanted
    result = alone(engine, PROMPTS[0], MUTE)
    assert (result.finish_reason, result.tokens) == ("error", ())
    assert isinstance(result.error, UserError)
    assert result.prompt_tokens == len(PROMPTS[0])


def test_an_abandoned_stream_gives_its_slot_back(engine: Engine) -> None:
    wanted = alone(engine, PROMPTS[1]).text
    never_begun = stream(engine, PROMPTS[0])
    closed, dropped, kept = (stream(engine, PROMPTS[n]) for n in (0, 0, 1))
    steps = [next(one) for one in (closed, dropped, kept)][2:]
    closed.close()
    del dropped
    # Slots of both are free: the next two requests take them.
    fresh = [engine.start(PROMPTS[2], SEEDED) for _ in range(2)]
    assert [sequence.slot for sequence in fresh] == [0, 1]
    for sequence in fresh:
        engine.release(sequence)
    assert text([*steps, *kept]) == wanted
    del never_begun
    assert not engine.loop.busy
    assert engine.start(PROMPTS[2], SEEDED).slot == 0


def test_a_broken_step_leaves_no_slot_taken(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(engine.loop, "step", broken)
        with pytest.raises(MemoryError):
            engine.complete(PROMPTS, SEEDED, LIMITS)
        with pytest.raises(MemoryError):
            list(stream(engine, PROMPTS[0]))
    assert not engine.loop.busy
    assert engine.start(PROMPTS[0], SEEDED).slot == 0


def test_many_streams_share_passes(engine: Engine) -> None:
    steps = [[*row] for row in zip_longest(*(stream(engine, prompt) for prompt in PROMPTS))]
    decoding = [row for row in steps if all(step and not step.prompt_rows for step in row)]
    assert decoding
    # The first stream drives; the others find what its steps did for them.
    shared = {id(step.times) for row in steps for step in row if step}
    assert len(shared) < sum(step is not None for row in steps for step in row)
