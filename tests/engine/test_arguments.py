"""What a caller may hand over, and that it stays the caller's."""

import numpy as np
import pytest
import torch

from draftwalk.engine import Engine
from draftwalk.errors import PromptError
from draftwalk.settings import Limits, Sampling, Window


@pytest.mark.parametrize("bad", [1.5, True, "a", None, -1, 10**9, torch.tensor(0.5)])
def test_what_is_no_token_id_is_refused(engine: Engine, bad: object) -> None:
    with pytest.raises(PromptError, match="the prompt has token"):
        engine.start([1, bad], Sampling())  # type: ignore[list-item]


def test_integers_of_any_library_are_ids(engine: Engine) -> None:
    limits = Limits(max_tokens=5)
    ways = ([1, 2, 3], np.array([1, 2, 3]), list(torch.tensor([1, 2, 3])))
    texts = [engine.complete([list(way)], Sampling(), limits)[0].tokens for way in ways]
    assert texts[0] == texts[1] == texts[2]


def test_a_prompt_that_grows_later_changes_nothing(engine: Engine) -> None:
    prompt = [1, 2, 3]
    limits, whole = Limits(max_tokens=12), Window()
    (expected,) = engine.complete([prompt], Sampling(), limits, whole)
    steps = []
    for step in engine.stream(prompt, Sampling(), limits, whole):
        prompt.extend(step.tokens)
        steps.append((step.prompt_rows, step.draft, step.tokens))
    assert steps == [(step.prompt_rows, step.draft, step.tokens) for step in expected.steps]


@pytest.mark.parametrize("wrong", [[1, 2], 5, "ab"])
def test_settings_of_the_wrong_kind_are_refused(wrong: object) -> None:
    with pytest.raises(PromptError):
        Sampling(logit_bias=wrong)  # type: ignore[arg-type]
    if wrong != [1, 2]:
        with pytest.raises(PromptError):
            Limits(stop=wrong)  # type: ignore[arg-type]
    if wrong == 5:
        with pytest.raises(PromptError):
            Limits(stop_ids=wrong)  # type: ignore[arg-type]
