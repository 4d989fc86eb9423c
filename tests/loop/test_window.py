"""How much of a draft is verified: n_max, n_min, p_min, and drafts that no drafter should make."""

import pytest

from draftwalk.draft.none import EmptyDrafter
from draftwalk.errors import PromptError
from draftwalk.sequence import Request
from draftwalk.settings import Limits, Sampling, Window
from support.models import BLOCK, ScriptedDrafter, target, windowed_target
from support.recurrent import HybridTarget, RecurrentTarget
from support.scripted import ListedDrafter, ScriptTarget, answer, make_loop

PROMPT = [1, 2, 3]
SCRIPT = [*PROMPT, *range(20, 60)]
FIRST = len(PROMPT) + 1
BLOCK_OF_TEXT = SCRIPT[FIRST : FIRST + BLOCK - 1]
COUPLED, REJECTION = Sampling(), Sampling(rule="rejection")


def first_draft(
    drafter: ListedDrafter, window: Window, sampling: Sampling = COUPLED, limit: int = 12
) -> tuple[int, ...]:
    """What was verified of the first draft; the text is what it has to be."""
    loop = make_loop(ScriptTarget(SCRIPT), drafter)
    text, steps = answer(loop, Request(PROMPT, sampling, Limits(limit), window))
    assert text.generated == SCRIPT[len(PROMPT) :][:limit]
    return steps[1].draft


@pytest.mark.parametrize("n_max", [None, *range(BLOCK + 6)])
def test_n_max(n_max: int | None) -> None:
    drafter = ListedDrafter([BLOCK_OF_TEXT])
    most = BLOCK - 1 if n_max is None else min(n_max, BLOCK - 1)
    assert first_draft(drafter, Window(n_max)) == tuple(BLOCK_OF_TEXT[:most])
    assert [request.limit for request in drafter.asked[:1]] == ([most] if most else [])
    if n_max == 0:
        assert drafter.asked == [], "plain decoding drafts nothing"


@pytest.mark.parametrize("drafted", range(BLOCK))
@pytest.mark.parametrize("n_min", range(BLOCK + 2))
def test_a_draft_shorter_than_n_min_is_not_verified(n_min: int, drafted: int) -> None:
    verified = first_draft(ListedDrafter([BLOCK_OF_TEXT[:drafted]]), Window(n_min=n_min))
    assert len(verified) == (drafted if drafted >= n_min else 0)


def test_n_min_is_measured_after_all_other_cuts() -> None:
    assert first_draft(ListedDrafter([BLOCK_OF_TEXT]), Window(n_max=3, n_min=3)) != ()
    # Five are drafted, three may still come, so two are verified.
    drafter = ListedDrafter([BLOCK_OF_TEXT])
    assert first_draft(drafter, Window(n_min=3), limit=4) == ()
    # Of four sure tokens and one unsure, four are left.
    for n_min, verified in ((4, 4), (5, 0)):
        drafter = ListedDrafter([BLOCK_OF_TEXT], (0.9, 0.9, 0.9, 0.9, 0.1))
        assert len(first_draft(drafter, Window(n_min=n_min, p_min=0.5))) == verified


@pytest.mark.parametrize(
    ("confidence", "p_min", "coupled", "rejection"),
    [
        ((0.9, 0.8, 0.3, 0.9, 0.9), 0.5, 2, 3),  # the unsure token is left out, or ends the draft
        ((0.1, 0.9, 0.9, 0.9, 0.9), 0.5, 0, 1),
        ((0.9, 0.9, 0.9, 0.9, 0.49), 0.5, 4, 5),
        ((0.5, 0.5, 0.5, 0.5, 0.5), 0.5, 5, 5),  # only what is lower is unsure
        ((0.9, 0.8, 0.3, 0.9, 0.9), 0.0, 5, 5),
        ((1.0, 1.0, 0.999, 1.0, 1.0), 1.0, 2, 3),
        ((1.0, 1.0, 1.0, 1.0, 1.0), 1.0, 5, 5),
    ],
)
def test_p_min(confidence, p_min: float, coupled: int, rejection: int) -> None:
    for sampling, verified in ((COUPLED, coupled), (REJECTION, rejection)):
        drafter = ListedDrafter([BLOCK_OF_TEXT], confidence)
        assert len(first_draft(drafter, Window(p_min=p_min), sampling)) == verified


def test_n_min_is_refused_where_it_would_bias_the_text() -> None:
    """With the request, before it could stop a step that others share."""
    with pytest.raises(PromptError, match="n_min 2 would bias"):
        Request(PROMPT, REJECTION, window=Window(n_min=2))


@pytest.mark.parametrize("sampling", [COUPLED, REJECTION])
@pytest.mark.parametrize("wrong", [-1, -7, 64, 65, 2**31, -(2**63)])
@pytest.mark.parametrize("index", range(BLOCK - 1))
def test_an_id_that_is_no_token_ends_the_draft(index: int, wrong: int, sampling) -> None:
    draft = [*BLOCK_OF_TEXT]
    draft[index] = wrong
    verified = first_draft(ListedDrafter([draft]), Window(), sampling)
    assert verified == tuple(BLOCK_OF_TEXT[:index])


def test_drafts_longer_than_asked_for_are_cut() -> None:
    long = SCRIPT[FIRST : FIRST + 30]
    assert first_draft(ListedDrafter([long]), Window(), limit=35) == tuple(BLOCK_OF_TEXT)
    assert first_draft(ListedDrafter([long]), Window(2)) == tuple(BLOCK_OF_TEXT[:2])
    assert first_draft(ListedDrafter([long]), Window(), limit=3) == tuple(BLOCK_OF_TEXT[:1])


@pytest.mark.parametrize("model", ["full", "mixed", "recurrent", "hybrid"])
@pytest.mark.parametrize("lengths", [(0, 0, 0, 0, 0, 4), (3, 0, 2), (5, 0), (0, 1, 0, 5, 0, 0, 3)])
def test_empty_drafts_between_full_ones(model: str, lengths: tuple[int, ...]) -> None:
    of = {
        "full": lambda: target("llama-rope3"),
        "mixed": lambda: windowed_target(8, full=True),
        "recurrent": RecurrentTarget,
        "hybrid": HybridTarget,
    }[model]()
    request = Request([5, 6, 7, 8], Sampling(temperature=0.9, seed=4), Limits(20))
    plain, _ = answer(make_loop(of, EmptyDrafter(), 200), request)
    for right in (0, 2, BLOCK):
        drafter = ScriptedDrafter({0: plain.tokens}, (right,), of.vocabulary, lengths=lengths)
        text, steps = answer(make_loop(of, drafter, 200), request)
        assert text.generated == plain.generated
        decoding = [step for step in steps if not step.prompt_rows]
        left = request.limits.max_tokens - 1  # after the token of the prompt's own pass
        for n, step in enumerate(decoding):
            assert len(step.draft) == min(lengths[n % len(lengths)], left - 1)
            assert step.accepted == min(right, len(step.draft))
            left -= len(step.tokens)
