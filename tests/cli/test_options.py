import math
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from draftwalk.cli.options import (
    ChatOptions,
    LimitOptions,
    ModelOptions,
    PlaceOptions,
    SamplingOptions,
    WindowOptions,
)
from draftwalk.cli.verb import verb
from draftwalk.settings import Limits, Window

Groups = dict[str, object]


def parse(*arguments: str) -> Groups:
    """What a verb with every group of options is called with."""
    got: Groups = {}

    def probe(
        models: ModelOptions,
        sampling: SamplingOptions,
        limits: LimitOptions,
        window: WindowOptions,
        words: ChatOptions,
        place: PlaceOptions,
    ) -> None:
        got.update(
            models=models,
            asked=sampling.asked(),
            limits=limits.limits(),
            window=window.window(),
            system=words.system,
            template=words.template_kwargs(),
            place=place,
        )

    result = run_verb(probe, *arguments)
    assert result == 0, arguments
    return got


def run_verb(function: Callable[..., None], *arguments: str) -> int:
    app = typer.Typer()
    app.command()(verb(function))
    return CliRunner().invoke(app, list(arguments)).exit_code


def test_defaults_ask_for_nothing() -> None:
    got = parse()
    assert got["models"] == ModelOptions()
    assert got["asked"] == {}
    assert got["limits"] == Limits()
    assert got["window"] == Window(auto=True)
    assert got["place"] == PlaceOptions()
    assert got["system"] is None
    assert got["template"] == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-md", "none", "-m", "x"], ModelOptions("x", "none")),
        (["-m", "a.gguf", "-md", "b"], ModelOptions("a.gguf", "b")),
        (["--model-draft", "b", "--model=a"], ModelOptions("a", "b")),
        (["-md=none"], ModelOptions(None, "none")),
        (["-hf", "o/n", "-hfd", "o/d:Q8_0"], ModelOptions(hf_repo="o/n", hf_repo_draft="o/d:Q8_0")),
        (["-hfr=o/n:Q4_0", "-hfrd", "d"], ModelOptions(hf_repo="o/n:Q4_0", hf_repo_draft="d")),
    ],
)
def test_models_are_told_apart(arguments: list[str], expected: ModelOptions) -> None:
    assert parse(*arguments)["models"] == expected


@pytest.mark.parametrize("flag", ["-c", "--ctx-size"])
def test_the_context_has_two_names(flag: str) -> None:
    assert parse(flag, "4096")["place"] == PlaceOptions(ctx_size=4096)


@pytest.mark.parametrize("flag", ["-n", "--predict", "--n-predict", "--max-tokens"])
def test_the_token_limit_has_four_names(flag: str) -> None:
    assert parse(flag, "128")["limits"] == Limits(max_tokens=128)
    assert parse(flag, "0")["limits"] == Limits(max_tokens=0)
    assert parse(flag, "-1")["limits"] == Limits()


def test_stops_are_collected() -> None:
    got = parse("--stop", "a", "-r", "b c", "--ignore-eos")
    assert got["limits"] == Limits(stop=("a", "b c"), ignore_eos=True)


@pytest.mark.parametrize("prefix", ["--spec-draft-", "--draft-"])
def test_the_window_has_llama_cpps_names(prefix: str) -> None:
    short = {"n-max": "max", "n-min": "min", "p-min": "p-min"}
    name = {key: key if "spec" in prefix else short[key] for key in short}
    got = parse(
        *(f"{prefix}{name['n-max']}", "5"),
        *(f"{prefix}{name['n-min']}", "2"),
        *(f"{prefix}{name['p-min']}", "0.25"),
    )
    assert got["window"] == Window(5, 2, 0.25)


@pytest.mark.parametrize(
    ("arguments", "window"),
    [
        (["--window", "auto"], Window(auto=True)),
        (["--window", "3"], Window(3)),
        (["--window=0"], Window(0)),
        (["--spec-draft-n-max", "3"], Window(3)),
        (["--window", "auto", "--draft-max", "3"], Window(3, auto=True)),
        (["--draft-p-min", "0.5"], Window(p_min=0.5, auto=True)),
        (["--window", "5", "--draft-min", "2"], Window(5, 2)),
    ],
)
def test_the_window_is_chosen_or_fixed(arguments: list[str], window: Window) -> None:
    assert parse(*arguments)["window"] == window


@pytest.mark.parametrize(
    "arguments",
    [
        ["--window", "all"],
        ["--window", "-1"],
        ["--window", "1.5"],
        ["--window", ""],
        ["--window", "9999999999"],
        ["--window", "3", "--spec-draft-n-max", "3"],
    ],
)
def test_a_window_that_is_none_is_a_usage_error(arguments: list[str]) -> None:
    def probe(*, window: WindowOptions) -> None:
        window.window()

    assert run_verb(probe, *arguments) == 2


def test_sampling_is_passed_on_by_name() -> None:
    got = parse(
        *("--temp", "0.7", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.05"),
        *("--repeat-penalty", "1.1", "--repeat-last-n", "-1", "--presence-penalty", "0.5"),
        *("--frequency-penalty", "-0.5", "--seed", "7", "--spec-rule", "rejection"),
    )
    assert got["asked"] == {
        "temperature": 0.7,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.05,
        "repeat_penalty": 1.1,
        "repeat_last_n": -1,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "seed": 7,
        "rule": "rejection",
    }


def test_a_seed_of_minus_one_asks_for_any() -> None:
    assert parse("--seed", "-1")["asked"] == {}


def test_biases_are_written_as_llama_cpp_has_them() -> None:
    got = parse("--logit-bias", "15043+1", "-l", "3-0.5", "--logit-bias", "4-inf")
    assert got["asked"] == {"logit_bias": {15043: 1.0, 3: -0.5, 4: -math.inf}}


@pytest.mark.parametrize("bias", ["3", "x+1", "3+y", "3*1", "-3+1", "3+nan", "3=1", "3+"])
def test_other_biases_are_usage_errors(bias: str) -> None:
    def probe(sampling: SamplingOptions) -> None:
        sampling.asked()

    assert run_verb(probe, f"--logit-bias={bias}") == 2


@pytest.mark.parametrize("flag", ["-s", "-sys", "--system", "--system-prompt"])
def test_the_system_message_has_four_names(flag: str) -> None:
    assert parse(flag, "be brief")["system"] == "be brief"


def test_template_arguments_are_json() -> None:
    got = parse("--chat-template-kwargs", '{"enable_thinking": false}')
    assert got["template"] == {"enable_thinking": False}


@pytest.mark.parametrize("text", ["{", "[1]", "x=1"])
def test_other_template_arguments_are_usage_errors(text: str) -> None:
    def probe(words: ChatOptions) -> None:
        words.template_kwargs()

    assert run_verb(probe, "--chat-template-kwargs", text) == 2


@pytest.mark.parametrize("text", ['{"a": %s}' % ("1" * 5000), "[" * 100_000])
def test_template_arguments_that_are_too_much_are_usage_errors(text: str) -> None:
    def probe(words: ChatOptions) -> None:
        words.template_kwargs()

    assert run_verb(probe, "--chat-template-kwargs", text) == 2


def test_numbers_that_are_too_large_are_usage_errors() -> None:
    def probe(sampling: SamplingOptions, place: PlaceOptions) -> None:
        sampling.asked()

    assert run_verb(probe, "-t", "1") == 0
    assert run_verb(probe, "-t", "99999999999999") == 2
    assert run_verb(probe, "-l", "1" * 5000 + "+1") == 2
