"""The next turn keeps what both states can keep: same text, same drafts, fewer rows to read."""

from collections.abc import Callable

import pytest

from draftwalk.draft import Drafter
from draftwalk.draft.none import EmptyDrafter
from draftwalk.loop import Loop, Step
from draftwalk.sequence import Request, Sequence
from draftwalk.settings import Limits, Sampling
from support.models import (
    ScriptedDrafter,
    drafter_checkpoint,
    random_drafter,
    target,
    windowed_target,
)
from support.recurrent import EVERY, HybridTarget, RecurrentTarget
from support.scripted import answer, finish, make_loop

CONTEXT = 250
TARGETS: dict[str, Callable[[], object]] = {
    "full": lambda: target("llama-rope3"),
    "sliding": lambda: windowed_target(5),
    "mixed": lambda: windowed_target(70, full=True),
    "recurrent": RecurrentTarget,
    "hybrid": HybridTarget,
}
DRAFTERS = ("none", "dflash", "dflash2 sliding", "dflash2 short")
PROMPT = [(11 * n * n + n) % 160 for n in range(100)]
ANSWER = 14
NEW = [150, 3, 7, 9, 20]  # what the next turn adds
SAMPLING = Sampling(temperature=0.8, seed=3)


def make_drafter(name: str, model) -> Drafter:
    if name == "none":
        return EmptyDrafter()
    sliding = name.endswith("sliding")
    checkpoint = drafter_checkpoint(
        160,
        48,
        taps=(model.depth - 1,),
        selector=name.startswith("dflash2"),
        layer_types=("sliding_attention", "full_attention") if sliding else ("full_attention",),
        context=70 if name.endswith("short") else 512,
    )
    return random_drafter(checkpoint, model)


def first_turn(name: str, drafter: str, prompt: list[int]) -> tuple[Loop, Sequence]:
    model = TARGETS[name]()
    loop = make_loop(model, make_drafter(drafter, model), CONTEXT, chunk=64)
    text, _ = answer(loop, Request(prompt, SAMPLING, Limits(ANSWER)))
    return loop, text


def told(steps: list[Step]) -> list[tuple[object, ...]]:
    """What steps did, but for reading the prompt."""
    return [(s.draft, s.accepted, s.tokens, s.finish_reason) for s in steps if s.tokens]


def check_next_turn(
    name: str, drafter: str, prompt: list[int], cut: Callable[[list[int]], list[int]]
) -> tuple[int, int]:
    """The turn after `prompt` on what `cut` makes of the text; returns rows shared and read."""
    loop, before = first_turn(name, drafter, prompt)
    following = Request(cut(before.tokens), SAMPLING, Limits(6))
    known = before.tokens[: before.processed]
    sequence = loop.follow(before, following)
    steps = finish(loop, sequence)
    fresh = make_loop(TARGETS[name](), make_drafter(drafter, TARGETS[name]()), CONTEXT)
    anew, expected = answer(fresh, following)
    assert sequence.generated == anew.generated
    assert told(steps) == told(expected)
    if drafter not in ("none", "dflash2 short"):
        assert any(step.draft for step in steps)
    shared = 0
    while (
        shared < min(len(known), len(following.prompt) - 1)
        and known[shared] == following.prompt[shared]
    ):
        shared += 1
    return shared, sum(step.prompt_rows for step in steps)


def expected_reuse(name: str, drafter: str, shared: int, processed: int) -> int:
    """Rows that need not be read again: what all states can go back to."""

    def held(window: int, length: int) -> bool:
        first_page = max(0, processed - window + 1) // 64
        return length == 0 or max(0, length - window + 1) // 64 >= first_page

    length = shared
    if name in ("recurrent", "hybrid") and length != processed:
        length = length // EVERY * EVERY
    windows = {"sliding": [5], "mixed": [70], "hybrid": [7]}.get(name, [])
    if drafter == "dflash2 sliding":
        windows = [*windows, 5]
    return length if all(held(window, length) for window in windows) else 0


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("name", TARGETS)
def test_a_conversation_goes_on(name: str, drafter: str) -> None:
    shared, read = check_next_turn(name, drafter, PROMPT, lambda text: text + NEW)
    assert shared == len(PROMPT) + ANSWER - 1  # all but the newest token, which was never read
    assert read == 1 + len(NEW)


@pytest.mark.parametrize(
    ("drafter", "length"),
    [("dflash2 sliding", length) for length in (0, 64, 66, 112)]
    + [("dflash2 short", length) for length in (66, 99)]
    + [("none", 105)],
)
@pytest.mark.parametrize("name", TARGETS)
def test_texts_that_part(name: str, drafter: str, length: int) -> None:
    """The answer is edited at some place, or the question is."""
    shared, read = check_next_turn(
        name, drafter, PROMPT, lambda text: [*text[:length], (text[length] + 1) % 160, *NEW]
    )
    assert shared == length
    assert read == length + 1 + len(NEW) - expected_reuse(
        name, drafter, length, len(PROMPT) + ANSWER - 1
    )


@pytest.mark.parametrize("name", TARGETS)
def test_the_same_prompt_again(name: str) -> None:
    """Its last token is read again, for its logits."""
    for size in (1, 100):
        prompt = PROMPT[:size]
        shared, read = check_next_turn(name, "dflash2 sliding", prompt, lambda _, p=prompt: p)
        assert shared == size - 1
        reuse = expected_reuse(name, "dflash2 sliding", shared, size + ANSWER - 1)
        assert read == size - reuse


def test_a_prompt_that_is_a_part_of_the_text_before() -> None:
    shared, read = check_next_turn("full", "dflash2 sliding", PROMPT, lambda text: text[:105])
    assert (shared, read) == (104, 1)


def test_turns_of_one_among_others() -> None:
    model = target("llama-rope3")
    loop = make_loop(model, make_drafter("dflash2 sliding", model), CONTEXT)
    other = loop.admit(Request(PROMPT[:50], SAMPLING, Limits(40)))
    text, _ = answer(loop, Request(PROMPT[:20], SAMPLING, Limits(6)))
    for turn in range(3):
        following = Request([*text.tokens, *NEW, turn], SAMPLING, Limits(6))
        text = loop.follow(text, following)
        steps = finish(loop, text)
        assert sum(step.prompt_rows for step in steps) == 2 + len(NEW)
        anew, expected = answer(make_loop(model, make_drafter("dflash2 sliding", model)), following)
        assert text.generated == anew.generated
        assert told(steps) == told(expected)
    finish(loop, other)
    alone, _ = answer(make_loop(model, EmptyDrafter()), other.request)
    assert other.generated == alone.generated
    for sequence in (text, other):
        loop.release(sequence)
    assert loop.state.kinds[0].pages_in_use == 0


@pytest.mark.parametrize("name", TARGETS)
def test_a_turn_after_one_that_ended_within_a_block(name: str) -> None:
    """A stop cut the commit; nothing behind it may be taken for known."""
    model, prompt = TARGETS[name](), PROMPT[:30]
    plain, _ = answer(make_loop(model, EmptyDrafter()), Request(prompt, SAMPLING, Limits(8)))
    for index in range(1, 7):  # the first block is tokens 1 to 6
        stop = frozenset({plain.generated[index]})
        drafter = ScriptedDrafter({0: plain.tokens}, (5,), 160)
        loop = make_loop(model, drafter, CONTEXT)
        text, steps = answer(loop, Request(prompt, SAMPLING, Limits(20, stop_ids=stop)))
        end = plain.generated.index(plain.generated[index])
        assert text.generated == plain.generated[: end + 1]
        assert len(steps) == min(2, end + 1)
        following = Request([*text.tokens, *NEW], SAMPLING, Limits(5))
        after = loop.follow(text, following)
        read = sum(step.prompt_rows for step in finish(loop, after))
        assert read == 1 + len(NEW)
        anew, _ = answer(make_loop(model, EmptyDrafter()), following)
        assert after.generated == anew.generated


def test_only_an_ended_text_is_followed() -> None:
    model = target("qwen3")
    loop = make_loop(model, EmptyDrafter())
    running = loop.admit(Request(PROMPT, SAMPLING))
    with pytest.raises(AssertionError):
        loop.follow(running, Request(PROMPT, SAMPLING))
