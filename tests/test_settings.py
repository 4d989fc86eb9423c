"""Settings refuse what cannot be meant, in one line that names the field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest

from draftwalk.errors import PromptError
from draftwalk.settings import Limits, Sampling, Window


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [-1, math.nan, math.inf, 1e9, "hot", True, None]),
        ("top_k", [-1, 1.5, math.nan, 2**31, True]),
        ("top_p", [-0.1, 1.1, math.nan, 1e9]),
        ("min_p", [-0.1, 1.1, math.nan, 1e9]),
        ("repeat_penalty", [0, -1, math.nan, math.inf, 1e9]),
        ("repeat_last_n", [-2, 0.5, 2**31]),
        ("presence_penalty", [math.nan, math.inf, -math.inf, 1e9]),
        ("frequency_penalty", [math.nan, math.inf, 1e9]),
        ("logit_bias", [{-1: 0.0}, {1: math.nan}, {1: math.inf}, {1: "ban"}, {"1": 0.0}]),
        ("seed", [-1, 2**64, 1.5, True]),
        ("rule", ["greedy", "", None]),
    ],
)
def test_sampling_refuses(field: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(PromptError, match=field) as caught:
            dataclasses.replace(Sampling(), **{field: value})
        assert "\n" not in str(caught.value)


def test_sampling_accepts_every_edge() -> None:
    Sampling(
        temperature=100, top_k=2**31 - 1, top_p=0, min_p=1, repeat_penalty=1e-3, repeat_last_n=-1,
        presence_penalty=-2, frequency_penalty=-2.0, logit_bias={0: -math.inf, 7: 5},
        seed=2**64 - 1, rule="rejection",
    )  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limits(max_tokens=-1),
        lambda: Limits(max_tokens=1.5),  # type: ignore[arg-type]
        lambda: Limits(stop=("",)),
        lambda: Limits(stop="END"),  # type: ignore[arg-type]
        lambda: Limits(stop_ids=frozenset({-1})),
        lambda: Window(n_max=-1),
        lambda: Window(n_min=-1),
        lambda: Window(p_min=math.nan),
        lambda: Window(p_min=1.1),
        lambda: Window(n_max=3, n_min=4),
    ],
)
def test_limits_and_windows_refuse(make: Callable[[], object]) -> None:
    with pytest.raises(PromptError):
        make()


def test_limits_and_windows_accept_every_edge() -> None:
    assert Limits(max_tokens=0, stop=["a", "b"]).stop == ("a", "b")  # type: ignore[arg-type]
    assert Limits(stop_ids={3, 4}).stop_ids == frozenset({3, 4})  # type: ignore[arg-type]
    Window(n_max=0, n_min=4)
    Window(n_max=4, n_min=4, p_min=1)


def test_rejection_refuses_a_discarded_draft() -> None:
    Window(n_min=2).check("coupled")
    Window(p_min=0.5).check("rejection")
    with pytest.raises(PromptError, match="n_min"):
        Window(n_min=2).check("rejection")


def test_what_is_greedy_and_what_is_penalised() -> None:
    assert Sampling().greedy
    assert Sampling(temperature=1e-9).greedy
    assert Sampling(temperature=1, top_k=1).greedy
    assert not Sampling(temperature=0.01).greedy
    assert not Sampling().penalised
    assert Sampling(repeat_penalty=1.1).penalised
    assert Sampling(presence_penalty=-0.1).penalised
    assert Sampling(frequency_penalty=0.1).penalised
    assert not Sampling(frequency_penalty=0.1, repeat_last_n=0).penalised


def test_settings_are_frozen_and_keep_their_own_bias() -> None:
    bias = {1: 2.0}
    sampling = Sampling(logit_bias=bias)
    bias[1] = 3.0
    assert sampling.logit_bias == {1: 2.0}
    with pytest.raises(dataclasses.FrozenInstanceError):
        sampling.temperature = 1.0  # type: ignore[misc]
