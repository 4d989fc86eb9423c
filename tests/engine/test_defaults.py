"""Where settings come from that nobody asked for, and what a checkpoint may say in vain."""

import math
import warnings
from pathlib import Path

import pytest

from draftwalk.defaults import sampling_settings, warn_of_others
from draftwalk.engine import load
from draftwalk.errors import CheckpointError
from draftwalk.settings import Sampling

BAN = -math.inf


def settings(generation: dict[str, object], asked: dict[str, object] | None = None) -> Sampling:
    return sampling_settings(asked or {}, generation, "m")


def test_a_flag_then_the_generation_config_then_greedy() -> None:
    config = {"do_sample": True, "temperature": 0.7, "top_k": 5, "repetition_penalty": 1.1}
    assert settings({}) == Sampling()
    assert settings({**config, "do_sample": False}) == Sampling()
    assert settings(config) == Sampling(temperature=0.7, top_k=5, repeat_penalty=1.1)
    asked = settings(config, {"temperature": 0.2, "top_k": None})
    assert asked == Sampling(temperature=0.2, top_k=5, repeat_penalty=1.1)
    assert settings({"do_sample": True}) == Sampling(temperature=1.0)


def test_a_logit_bias_leaves_suppressed_tokens_banned() -> None:
    config: dict[str, object] = {"suppress_tokens": [3, 5]}
    assert settings(config).logit_bias == {3: BAN, 5: BAN}
    assert settings(config, {"logit_bias": {7: 1.5}}).logit_bias == {3: BAN, 5: BAN, 7: 1.5}
    assert settings(config, {"logit_bias": {5: 2.0}}).logit_bias == {3: BAN, 5: 2.0}
    assert settings({"suppress_tokens": None}).logit_bias == {}


@pytest.mark.parametrize("value", [[-1], 3, ["3"], [True], "3"])
def test_suppressed_tokens_are_ids(value: object) -> None:
    with pytest.raises(CheckpointError, match=r"m: key suppress_tokens is .*expected a list"):
        settings({"suppress_tokens": value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("no_repeat_ngram_size", 3),
        ("bad_words_ids", [[4], [5, 6]]),
        ("min_new_tokens", 9),
        ("num_beams", 4),
        ("typical_p", 0.9),
        ("stop_strings", ["x"]),
        ("forced_eos_token_id", 2),
    ],
)
def test_what_is_not_implemented_is_warned_of_by_name(key: str, value: object) -> None:
    with pytest.warns(UserWarning, match=f"m: the generation config asks for {key} = "):
        warn_of_others({key: value, "num_beam_groups": 1}, "m")


def test_settings_that_change_nothing_are_passed_over() -> None:
    neutral = {"num_beams": 1, "typical_p": 1.0, "min_length": 0, "bad_words_ids": None}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_others({**neutral, "stop_strings": [], "max_length": 20, "use_cache": True}, "m")


def test_an_engine_warns_once(pair: tuple[Path, Path]) -> None:
    engine = load(pair[0], plain=True)
    engine.checkpoint.generation = {"num_beams": 4, "eos_token_id": []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert engine.sampling() == Sampling()
    assert [str(one.message).count("num_beams = 4") for one in caught] == [1]
