import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from support.command_line import EXACT, call
from support.talking_model import write_target

DRAFTERS = ("none", "d1", "d2")
WHOLE = ("--window", "5")  # of a block of 6; what auto verifies is nobody's to foresee


def run(files: Path, *arguments: str | Path, model: str = "t.gguf", draft: str = "d2"):
    drafter = draft if draft == "none" else files / draft
    return call("run", "-m", files / model, "-md", drafter, *EXACT, *arguments)


def found(files: Path, *arguments: str | Path, draft: str = "d2") -> dict[str, object]:
    outcome = run(files, "--json", "-q", *arguments, draft=draft)
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.json


def test_text_on_stdout_statistics_on_stderr(files: Path) -> None:
    shown = run(files, "hello", "-n", "20", *WHOLE)
    assert shown.code == 0
    assert len(shown.out) == 21
    assert shown.out.endswith("\n")
    for word in ("prompt ", "answer ", "acceptance length", "acceptance rate", "drafting"):
        assert word in shown.err
    assert "window   5.00 tokens of a draft" in shown.err or "window   4." in shown.err
    quiet = run(files, "hello", "-n", "20", "--quiet")
    assert (quiet.out, quiet.err) == (shown.out, "")


@pytest.mark.parametrize("settings", [(), ("--temp", "1", "--seed", "3")], ids=["greedy", "seeded"])
def test_the_text_does_not_depend_on_the_drafter(files: Path, settings: tuple[str, ...]) -> None:
    asked = ("hello", "-n", "24", *WHOLE, *settings)
    answers = [found(files, *asked, draft=draft) for draft in DRAFTERS]
    assert len(answers[0]["tokens"]) == 24
    for answer in answers[1:]:
        for key in ("text", "tokens", "finish_reason", "usage", "seed"):
            assert answer[key] == answers[0][key]
    drafting = [bool(answer["timings"].get("draft_n")) for answer in answers]
    assert drafting == [False, True, True]


def test_json_has_llama_cpps_names(files: Path) -> None:
    answer = found(files, "hello", "-n", "12", "--temp", "0.8", *WHOLE)
    assert answer["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 24, "completion_tokens": 12, "total_tokens": 36}
    assert isinstance(answer["seed"], int)
    timings, steps = answer["timings"], answer["steps"]
    assert timings["prompt_n"] == 24
    assert timings["predicted_n"] == 12
    assert timings["draft_n"] == sum(len(step["draft"]) for step in steps)
    assert timings["draft_n_accepted"] == sum(step["accepted"] for step in steps)
    for name in ("prompt_ms", "prompt_per_second", "predicted_ms", "predicted_per_second"):
        assert timings[name] > 0
    assert [token for step in steps for token in step["tokens"]] == answer["tokens"]
    for step in steps:
        kept = step["tokens"][: step["accepted"]]
        assert kept == step["draft"][: step["accepted"]]
        parts = ("draft", "verify", "choose", "commit", "observe")
        assert all(step[f"{part}_ms"] >= 0 for part in parts)
    assert answer["model"] == str(files / "t.gguf")
    assert answer["model_draft"] == str(files / "d2")
    again = found(files, "hello", "-n", "12", "--temp", "0.8", "--seed", str(answer["seed"]))
    assert again["tokens"] == answer["tokens"]


def test_plain_decoding_has_no_draft_counts(files: Path) -> None:
    answer = found(files, "hello", "-n", "4", draft="none")
    assert answer["model_draft"] is None
    assert not {"draft_n", "draft_n_accepted"} & answer["timings"].keys()
    for step in answer["steps"]:
        assert (step["draft"], step["accepted"]) == ([], 0)


@pytest.mark.parametrize("flag", ["--draft-max", "--window"])
def test_a_window_of_nothing_is_plain_decoding(files: Path, flag: str) -> None:
    answer = found(files, "hello", "-n", "4", flag, "0")
    assert not {"draft_n", "window_mean", "draft_off"} & answer["timings"].keys()
    assert not any(step["asked"] for step in answer["steps"])


def test_what_auto_did_is_told(files: Path) -> None:
    answer = found(files, "hello", "-n", "40")
    timings = answer["timings"]
    decoding = [step for step in answer["steps"] if not step["prompt_rows"]]
    drafted = [step for step in decoding if step["asked"]]
    verified = sum(len(step["draft"]) for step in drafted)
    assert timings["window_mean"] == pytest.approx(verified / len(drafted))
    assert timings["draft_off"] == pytest.approx(1 - len(drafted) / len(decoding))
    assert answer["tokens"] == found(files, "hello", "-n", "40", draft="none")["tokens"]
    told = run(files, "hello", "-n", "40").err
    line = r"window   [\d.]+ tokens verified on average, nothing drafted in \d+% of steps"
    assert re.search(line, told)


def test_a_window_above_the_block_is_clamped_with_a_warning(files: Path) -> None:
    outcome = run(files, "hello", "-n", "12", "--draft-max", "50", "--json", "-q")
    assert outcome.code == 0
    assert re.fullmatch(r"warning: n_max 50 is .*\n", outcome.err)
    assert max(len(step["draft"]) for step in outcome.json["steps"]) == 5


@pytest.mark.parametrize("count", [0, 1])
def test_few_tokens(files: Path, count: int) -> None:
    answer = found(files, "hello", "-n", str(count))
    assert len(answer["text"]) == len(answer["tokens"]) == count
    assert answer["finish_reason"] == "length"
    assert run(files, "hello", "-n", str(count)).code == 0


def test_a_stop_text_ends_the_answer_and_is_not_shown(files: Path) -> None:
    whole = found(files, "hello", "-n", "24")["text"]
    stop = whole[10:13]
    answer = found(files, "hello", "-n", "24", "--stop", stop)
    assert answer["text"] == whole[: whole.index(stop)]
    assert answer["finish_reason"] == "stop"
    assert run(files, "hello", "-n", "24", "-r", stop, "-q").out == answer["text"] + "\n"


def test_a_ban_holds(files: Path) -> None:
    first = found(files, "hello", "-n", "8")["tokens"]
    banned = found(files, "hello", "-n", "8", "--logit-bias", f"{first[0]}-inf")["tokens"]
    assert first[0] not in banned


def test_raw_continues_the_text(files: Path) -> None:
    assert found(files, "hello", "-n", "2", "--raw")["usage"]["prompt_tokens"] == 5
    mute = run(files, "hello", "-n", "2", "--json", "-q", model="mute.gguf")
    assert mute.json["usage"]["prompt_tokens"] == 5


def test_a_system_message_comes_first(files: Path) -> None:
    plain = found(files, "hello", "-n", "2")["usage"]["prompt_tokens"]
    with_system = found(files, "hello", "-n", "2", "-s", "be brief")["usage"]["prompt_tokens"]
    # <|im_start|> and <|im_end|> are a token each, every character is one.
    assert with_system - plain == 1 + len("system\nbe brief") + 1 + len("\n")


@pytest.mark.parametrize(
    ("arguments", "model", "message"),
    [
        (["", "-q"], "t.gguf", "the prompt is empty"),
        (["  ", "-q"], "t.gguf", "the prompt is empty"),
        (["", "--raw"], "t.gguf", "the prompt is empty"),
        (["hi", "--raw", "-s", "x"], "t.gguf", "--raw uses none"),
        (["hi", "-s", "x"], "mute.gguf", "mute.gguf has none"),
        (["x" * 600], "t.gguf", "the context holds 512"),
        (["hi", "--top-p", "1.5"], "t.gguf", "top_p is 1.5"),
        (["hi", "--logit-bias", "5000+1"], "t.gguf", "logit_bias has token 5000"),
        (["hi", "--device", "nowhere"], "t.gguf", "device 'nowhere' cannot be used"),
        (["hi", "-m", "nothing.gguf"], "t.gguf", "smollm2-135m"),
    ],
)
def test_what_users_get_wrong_is_one_line(
    files: Path, arguments: list[str], model: str, message: str
) -> None:
    outcome = run(files, *arguments, model=model)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: ")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("draft", ["wide", "deep", "foreign"])
def test_a_drafter_of_another_target_is_refused(files: Path, draft: str) -> None:
    outcome = run(files, "hi", draft=draft)
    assert outcome.code == 1
    assert re.fullmatch(r"error: the drafter .*\n", outcome.err)


def test_a_target_without_a_drafter_is_told(files: Path) -> None:
    outcome = call("run", "-m", files / "t.gguf", *EXACT, "hi", "-n", "2", "-q")
    assert outcome.code == 0
    assert re.fullmatch(r"warning: no packaged drafter .*\n", outcome.err)


def test_a_model_that_was_never_fetched_needs_the_network(tmp_path: Path) -> None:
    outcome = call("run", "--offline", "--cache-dir", tmp_path, "hi")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: smollm2-135m is to be used offline, but ")
    assert outcome.err.count("\n") == 1


def test_a_context_beyond_the_model_is_told(files: Path) -> None:
    outcome = run(files, "hi", "-n", "2", "-c", "100000", "-q")
    assert "512 are used" in outcome.err
    assert run(files, "hi", "-n", "2", "-c", "0", "-q").err == ""
    full = run(files, "hi", "-c", "30", "--json", "-q").json
    assert full["usage"]["total_tokens"] == 30
    assert full["finish_reason"] == "length"


def test_a_prompt_can_be_piped(files: Path) -> None:
    given = found(files, "hello", "-n", "6")
    for arguments in ((), ("-",)):
        drafter = ("-md", files / "d2")
        piped = call(
            *("run", "-m", files / "t.gguf", *drafter, *EXACT, "-n", "6", "--json", "-q"),
            *arguments,
            stdin="hello\n",
        )
        assert piped.json["tokens"] == given["tokens"]


@pytest.mark.parametrize(
    "combination",
    [
        ("--json", "--show-draft"),
        ("--json", "--compare"),
        ("--show-draft", "--compare"),
        ("--prompts", "x"),
        ("--spec-rule", "greedy"),
        ("--dtype", "int8"),
        ("--unknown",),
    ],
)
def test_contradictions_are_usage_errors(files: Path, combination: tuple[str, ...]) -> None:
    outcome = run(files, "hi", *combination)
    assert (outcome.code, outcome.out) == (2, "")


def test_a_batch_equals_single_answers(files: Path, tmp_path: Path) -> None:
    prompts = ["hello", "a longer prompt than the first one", "hi", "ho"]
    single = [found(files, prompt, "-n", "10") for prompt in prompts]
    lines = tmp_path / "prompts.txt"
    lines.write_text("\n".join(prompts) + "\n")
    conversation = {"messages": [{"role": "user", "content": prompts[2]}]}
    entries = [{"prompt": prompts[0]}, {"turns": [prompts[1], "more"]}, conversation]
    objects = tmp_path / "prompts.jsonl"
    objects.write_text("\n".join(map(json.dumps, [*entries, {"prompt": prompts[3], "id": 4}])))
    for file in (lines, objects):
        for parallel in ("1", "3", "16"):
            batch = found(files, "--prompts", file, "-n", "10", "-np", parallel)
            for answer, alone in zip(batch["results"], single, strict=True):
                for key in ("text", "tokens", "finish_reason", "usage"):
                    assert answer[key] == alone[key]
            assert batch["usage"]["completion_tokens"] == 40
            assert batch["timings"]["predicted_n"] == 40


def test_a_batch_is_readable(files: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("hello\n\nhi\n")
    outcome = run(files, "--prompts", file, "-n", "5")
    assert re.fullmatch(r"\[1\] hello\n.{5,6}\n\n\[2\] hi\n.{5,6}\n\n", outcome.out, re.DOTALL)
    assert "2 of 2 prompts, 10 tokens" in outcome.err
    file.write_text(f"hello\n{'x' * 600}\n")
    outcome = run(files, "--prompts", file, "-n", "5")
    assert re.fullmatch(r"\[1\] hello\n.{5,6}\n\n", outcome.out, re.DOTALL)
    assert "1 of 2 prompts, 5 tokens" in outcome.err


def test_one_bad_prompt_does_not_harm_the_others(files: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    entries = [{"prompt": "hello"}, {"prompt": "x" * 600}, {"prompt": ""}, {"prompt": "hi"}]
    file.write_text("\n".join(map(json.dumps, entries)))
    outcome = run(files, "--prompts", file, "-n", "6", "--json", "-q")
    assert outcome.code == 1
    first, long, empty, last = outcome.json["results"]
    assert first["tokens"] == found(files, "hello", "-n", "6")["tokens"]
    assert last["tokens"] == found(files, "hi", "-n", "6")["tokens"]
    assert [one["finish_reason"] for one in (first, long, empty)] == ["length", "error", "error"]
    assert (long["text"], long["tokens"], long["steps"]) == ("", [], [])
    assert outcome.json["usage"]["completion_tokens"] == 12
    assert "the context holds 512" in long["error"]
    assert "empty" in empty["error"]
    assert [line[:16] for line in outcome.err.splitlines()] == [
        "error: prompt 2:",
        "error: prompt 3:",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no prompts in it"),
        ("\n \n", "has no prompts in it"),
        ('{"prompt": "a"}\nplain', "line 2 is no JSON"),
        ('{"question": "a"}', "line 1 has neither prompt, turns nor messages"),
        ('{"prompt": 3}', "line 1 has neither"),
        (
            '{"prompt": %s}' % ("1" * 5000),
            "line 1 is no JSON: it has a number with too many digits",
        ),
        ('{"prompt": ' + "[" * 100_000, "line 1 is no JSON: it is nested too deeply"),
        ('{"turns": []}', "line 1 has neither"),
        ('{"messages": [{"role": "user"}]}', "line 1 has a message without"),
    ],
)
def test_a_file_of_no_prompts_is_refused(
    files: Path, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "prompts"
    file.write_text(text)
    outcome = run(files, "--prompts", file)
    assert (outcome.code, outcome.out) == (1, "")
    assert message in outcome.err


def test_a_missing_file_of_prompts_is_named(files: Path) -> None:
    outcome = run(files, "--prompts", "/no/such/file")
    assert outcome.code == 1
    assert "/no/such/file cannot be read" in outcome.err


def test_drafts_are_shown_readably_without_colour(files: Path) -> None:
    answer = found(files, "hello", "-n", "30", *WHOLE)
    outcome = run(files, "hello", "-n", "30", *WHOLE, "--show-draft")
    assert outcome.err.startswith("[accepted draft] {-dropped draft-} own token\n")
    shown = iter_marks(outcome.out.removesuffix("\n"), answer)
    assert shown == answer["text"]


def iter_marks(shown: str, answer: dict[str, object]) -> str:
    """The text that marks were put into, found by undoing what each step must have written."""
    text = answer["text"]
    letters = dict(zip(answer["tokens"], text, strict=True))
    position, read = 0, ""
    for step in answer["steps"]:
        accepted = step["accepted"]
        kept = "".join(letters[token] for token in step["tokens"][:accepted])
        own = "".join(letters[token] for token in step["tokens"][accepted:])
        dropped = len(step["draft"]) - accepted
        if kept:
            assert shown[position : position + len(kept) + 2] == f"[{kept}]"
            position += len(kept) + 2
        if dropped:
            assert shown[position : position + 2] == "{-"
            assert shown[position + 2 + dropped : position + 4 + dropped] == "-}"
            position += dropped + 4
        assert shown[position : position + len(own)] == own
        position += len(own)
        read += kept + own
    assert position == len(shown)
    return read


def test_compare_tells_both_sides(files: Path) -> None:
    text = found(files, "hello", "-n", "16")["text"]
    for settings in ((), ("--temp", "1")):
        outcome = run(files, "hello", "-n", "16", "--compare", *settings)
        assert outcome.code == 0
        assert "equal, token for token, in all 6 runs" in outcome.out
        names = ["acceptance length", "with drafter", "plain decoding", "ratio", "texts"]
        places = [outcome.out.index(f"\n{name}") for name in names]
        assert all(before < after for before, after in pairwise(places))
    assert run(files, "hello", "-n", "16", "--compare").out.startswith(f"{text}\n")


def test_without_a_drafter_there_is_nothing_to_compare(tmp_path: Path) -> None:
    """No packaged drafter was trained for this target, which only its file tells."""
    target = write_target(tmp_path / "t.gguf")
    outcome = call("run", "-m", target, "hello", "-n", "4", "--compare")
    assert (outcome.code, outcome.out) == (1, "")
    assert "error: nothing is drafted, so there is nothing to compare" in outcome.err


@pytest.mark.parametrize(
    "arguments", [("-m", "x" * 5000), ("-m", "x" * 200), ("-m", "/dev/null/x")]
)
def test_names_that_cannot_be_looked_for(files: Path, arguments: tuple[str, ...]) -> None:
    outcome = run(files, "hi", *arguments)
    assert outcome.code == 1
    assert re.match(
        r"error: '(x+\.*x*|/dev/null/x)' (cannot be looked for|is no file)", outcome.err
    )
    assert len(outcome.err) < 500


def test_the_home_of_nobody_has_no_cache() -> None:
    outcome = call("run", "--offline", "--cache-dir", "~nosuchuser/x", "hi")
    assert outcome.code == 1
    assert outcome.err.startswith("error: ~nosuchuser/x cannot be found: ")


@pytest.mark.parametrize(
    "arguments",
    [("-md", "none", "--compare"), ("--draft-max", "0", "--compare"), ("--json", "--compare")],
)
def test_what_cannot_be_compared_is_told_before_anything_is_loaded(
    arguments: tuple[str, ...],
) -> None:
    outcome = call("run", "-m", "no such file", "hello", *arguments)
    assert outcome.code == 2
    assert "compare" in outcome.err
