"""Where a text ends: stops and limits at every index of an accepted block cut exactly there."""

from collections.abc import Sequence

import pytest

from draftwalk.draft.none import EmptyDrafter
from draftwalk.loop import Step
from draftwalk.sequence import Request
from draftwalk.sequence import Sequence as Text
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.text.stream import TextStream
from support.models import BLOCK, ScriptedDrafter, drafter_checkpoint, random_drafter, target
from support.scripted import ListedDrafter, ScriptTarget, answer, make_loop

PROMPT = [1, 2, 3]
SCRIPT = [*PROMPT, *range(20, 60)]  # after the prompt comes 20; the first block is 21 to 26
FIRST = len(PROMPT) + 1  # tokens when the first block is drafted
RULES = ("coupled", "rejection")
STOP = 63


def letters(token: int) -> bytes:
    """20 is `a`, 21 is `b`, and so on; the stop token would show."""
    return b"<stop>" if token == STOP else bytes([ord("a") + token - 20])


def stream(stops: Sequence[str] = ()) -> TextStream:
    return TextStream(letters, stops)


def right_drafter(script: Sequence[int] = SCRIPT) -> ScriptedDrafter:
    """Right for whole blocks."""
    return ScriptedDrafter({0: script}, (BLOCK,), 64)


def check_end(text: Text, steps: list[Step], loop, script: Sequence[int] = SCRIPT) -> None:
    """Tokens, counters and states of an ended text agree."""
    assert text.tokens == list(script[: len(text.tokens)])
    assert [t for step in steps for t in step.tokens] == text.generated
    assert steps[-1].finish_reason == text.finish_reason
    assert all(step.finish_reason is None for step in steps[:-1])
    # The newest token was never read, and nothing behind it was kept.
    assert text.processed == len(text.tokens) - 1
    assert loop.state.length(text.slot) == text.processed
    assert loop.backlog.length(text.slot) == text.processed
    for step in steps:
        assert step.tokens[: step.accepted] == step.draft[: step.accepted]
    assert not loop.busy


def both(request, script=SCRIPT, context: int = 4096) -> tuple[Text, list[Step]]:
    """The answer with whole blocks accepted, after checking that plain decoding gives the same."""
    ends = []
    for drafter in (EmptyDrafter(), right_drafter(script)):
        loop = make_loop(ScriptTarget(script), drafter, context)
        text, steps = answer(loop, request())
        check_end(text, steps, loop, script)
        ends.append((text.tokens, text.finish_reason, "".join(step.text for step in steps)))
    assert ends[0] == ends[1]
    return text, steps


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("index", range(BLOCK))
def test_stop_id_at_every_index_of_a_block(index: int, own: bool, rule) -> None:
    script = [*SCRIPT]
    script[FIRST + index] = STOP

    def request() -> Request:
        ids = frozenset({STOP})
        return Request(
            PROMPT,
            Sampling(rule=rule),
            Limits(stop_ids=frozenset() if own else ids),
            stop_ids=ids if own else frozenset(),
            stream=stream(),
        )

    text, steps = both(request, script)
    assert text.finish_reason == "stop"
    assert len(steps) == 2
    assert steps[1].tokens == (*SCRIPT[FIRST : FIRST + index], STOP)
    assert steps[1].accepted == min(index + 1, BLOCK - 1)
    assert "".join(step.text for step in steps) == "abcdefg"[: index + 1]


@pytest.mark.parametrize("index", range(BLOCK))
def test_stop_string_at_every_index_of_a_block(index: int) -> None:
    last = "bcdefg"[index]
    whole = "abcdefg"
    for stop in (last, whole[index : index + 2], whole[max(0, index - 3) : index + 2]):
        text, steps = both(
            lambda stop=stop: Request(PROMPT, limits=Limits(), stream=stream([stop, "zz"]))
        )
        assert text.finish_reason == "stop"
        assert text.tokens[-1] == SCRIPT[FIRST + index]
        assert len(steps) == 2
        assert "".join(step.text for step in steps) == whole[: index + 2].removesuffix(stop)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("index", range(BLOCK))
def test_token_limit_at_every_index_of_a_block(index: int, rule) -> None:
    text, steps = both(
        lambda: Request(PROMPT, Sampling(rule=rule), Limits(index + 2), stream=stream())
    )
    assert text.finish_reason == "length"
    assert len(text.generated) == index + 2
    assert len(steps) == 2
    assert len(steps[1].draft) == index, "no more is drafted than may still come, less one"
    assert "".join(step.text for step in steps) == "abcdefg"[: index + 2]


@pytest.mark.parametrize("index", range(BLOCK))
def test_context_limit_at_every_index_of_a_block(index: int) -> None:
    text, _ = both(lambda: Request(PROMPT, stream=stream()), context=FIRST + index + 1)
    assert text.finish_reason == "length"
    assert len(text.tokens) == FIRST + index + 1


def test_the_context_is_the_lesser_of_what_is_asked_for_and_what_the_target_has() -> None:
    loop = make_loop(ScriptTarget(SCRIPT, context=9), right_drafter(), context=50)
    text, steps = answer(loop, Request(PROMPT))
    check_end(text, steps, loop)
    assert len(text.tokens) == 9


@pytest.mark.parametrize("rule", RULES)
def test_a_stop_comes_before_the_limit_that_it_meets(rule) -> None:
    block = [10, 11, STOP, 20, 21, 22]
    for limit, tokens, reason in (
        (5, [10, 11, STOP], "stop"),
        (3, [10, 11, STOP], "stop"),  # the last one allowed
        (2, [10, 11], "length"),
    ):
        script = [*PROMPT, *block]
        text, _ = both(
            lambda limit=limit: Request(
                PROMPT, Sampling(rule=rule), Limits(limit, stop_ids=frozenset({STOP}))
            ),
            script,
        )
        assert (text.generated, text.finish_reason) == (tokens, reason)
    script = [*PROMPT, 10, 11, 12, 13, 14, 15, STOP]
    text, _ = both(lambda: Request(PROMPT, limits=Limits(5), stop_ids=frozenset({STOP})), script)
    assert (text.generated, text.finish_reason) == ([10, 11, 12, 13, 14], "length")


def test_a_stop_string_on_the_last_allowed_token() -> None:
    text, steps = both(lambda: Request(PROMPT, limits=Limits(4), stream=stream(["cd"])))
    assert text.finish_reason == "stop"
    assert "".join(step.text for step in steps) == "ab"


def test_what_is_held_for_a_stop_string_is_given_at_the_end() -> None:
    """Also when the whole answer is shorter than what is held."""
    for limit in (1, 3, 7, 8):
        _, steps = both(
            lambda limit=limit: Request(
                PROMPT, limits=Limits(limit), stream=stream(["abcdefghijklmnopqr"])
            )
        )
        assert "".join(step.text for step in steps) == "abcdefgh"[:limit]


def test_no_token_and_one_token() -> None:
    drafter = right_drafter()
    loop = make_loop(ScriptTarget(SCRIPT), drafter)
    none = loop.admit(Request(PROMPT, limits=Limits(0)))
    assert none.finish_reason == "length"
    assert none.generated == []
    assert not loop.busy
    loop.release(none)
    text, steps = answer(loop, Request(PROMPT, limits=Limits(1)))
    assert text.generated == [20]
    assert text.finish_reason == "length"
    assert [step.draft for step in steps] == [()]


@pytest.mark.parametrize(("size", "generated"), [(7, 1), (8, 0), (9, 0)])
def test_prompts_as_long_as_the_context(size: int, generated: int) -> None:
    """8 is the context; that a prompt does not fit is for the engine to say."""
    for drafter in (EmptyDrafter(), right_drafter()):
        loop = make_loop(ScriptTarget(SCRIPT), drafter, context=8)
        text, steps = answer(loop, Request(SCRIPT[:size]))
        assert text.finish_reason == "length"
        assert len(text.generated) == generated
        assert all(not step.draft for step in steps)
        loop.release(text)
        text, _ = answer(loop, Request(PROMPT))  # the next request is unharmed
        assert len(text.tokens) == 8


def test_a_mask_id_is_a_token_like_any_other() -> None:
    """Random drafters fill their blocks with token 3, which may be said, or be a stop."""
    model = target("llama-rope3")
    mask = 3
    forced = Sampling(logit_bias={mask: 9.0}, presence_penalty=9.5, repeat_last_n=4)
    checkpoint = drafter_checkpoint(160, 48, (0, 2), selector=True)
    ends = []
    for drafter in (EmptyDrafter(), random_drafter(checkpoint, model)):
        for stops in (frozenset[int](), frozenset({mask})):
            loop = make_loop(model, drafter, context=200)
            text, _ = answer(loop, Request([9, mask, 8], forced, Limits(24), stop_ids=stops))
            ends.append((text.generated, text.finish_reason))
            loop.release(text)
    assert ends[:2] == ends[2:]
    without, stopped = ends[:2]
    at = without[0].index(mask)
    assert 0 < at < 20, "the mask's id is said in the middle"
    assert len(without[0]) == 24
    assert stopped == (without[0][: at + 1], "stop")


def test_ignored_stops() -> None:
    script = [*SCRIPT]
    script[FIRST + 1] = STOP
    for ignore, end in ((False, FIRST + 2), (True, FIRST + 9)):
        text, _ = both(
            lambda ignore=ignore: Request(
                PROMPT,
                limits=Limits(10, ignore_eos=ignore),
                stop_ids=frozenset({STOP}),
            ),
            script,
        )
        assert len(text.tokens) == end
    # What the request itself named ends the text all the same.
    text, _ = both(
        lambda: Request(PROMPT, limits=Limits(10, (), frozenset({STOP}), True)),
        script,
    )
    assert len(text.tokens) == FIRST + 2


def test_nothing_is_drafted_with_one_token_left() -> None:
    drafter = ListedDrafter([SCRIPT[FIRST : FIRST + 3]] * 5)
    loop = make_loop(ScriptTarget(SCRIPT), drafter)
    text, steps = answer(loop, Request(PROMPT, limits=Limits(6)))
    check_end(text, steps, loop)
    assert [request.limit for request in drafter.asked] == [4]
    assert [len(step.draft) for step in steps] == [0, 3, 0]


def test_a_wider_window_changes_nothing_about_the_end() -> None:
    for n_max in range(BLOCK + 6):
        text, steps = both(
            lambda n_max=n_max: Request(PROMPT, limits=Limits(9), window=Window(n_max))
        )
        assert len(text.generated) == 9
        assert max(len(step.draft) for step in steps) == min(n_max, BLOCK - 1)
