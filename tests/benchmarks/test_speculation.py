"""The benchmark's arithmetic on made-up answers, and a whole run of it on tiny models."""

import importlib
import json
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from draftwalk.errors import UserError
from support.talking_model import write_drafter, write_target

ROOT = Path(__file__).parent.parent.parent
OURS = ("speculation", "speculation_parts", "cpu_parts", "prompts")


@pytest.fixture(scope="module", autouse=True)
def _benchmarks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def part(name: str) -> ModuleType:
    return module(f"speculation_parts.{name}")


def made(
    text: Sequence[int] = range(11),
    seconds: float = 1.0,
    accepted: int = 0,
    verified: int = 0,
    loop: float | None = None,
) -> object:
    """An answer of 11 tokens, 10 of which come after the first."""
    spent = seconds if loop is None else loop
    parts = {"draft": 0.0, "verify": spent, "choose": 0.0, "commit": 0.0, "observe": 0.0}
    steps = len(text) - 1 - accepted
    return part("answer").Answer(
        tuple(text), 0.5, seconds, steps, verified, 3 * verified, accepted, parts, {0: steps}
    )


def case(prompt: int, suite: str = "a", sampling: str = "greedy") -> object:
    return part("run").Case(prompt, suite, f"kind of {suite}", sampling, 20)


def arm(name: str, window: int | None = 0, ask: Callable[[object], object] = made) -> object:
    engine = name.partition("/")[0]
    target = name.split("/")[1] if engine.startswith("llama") else ""
    return part("answer").Arm(name, engine, ask, window, target)


def test_prompts_are_spread_over_a_file_and_no_text_comes_twice(tmp_path: Path) -> None:
    prompts = module("prompts")
    lines = [{"turns": [f"text {n}", "more"], "category": f"kind{n // 3}/x"} for n in range(9)]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = [{"turns": ["text 3"]}, {"turns": ["text 4"]}, {"prompt": "new"}, {"prompt": "new"}]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in again))
    files = prompts.suite_files(tmp_path)
    found = prompts.read_prompts(files, 3)
    assert [one.text for one in found] == ["text 0", "text 3", "text 6", "text 4", "new"]
    assert [one.category for one in found] == ["kind0", "kind1", "kind2", "c", "c"]
    assert [one.suite for one in found] == ["b", "b", "b", "c", "c"]
    assert len(prompts.read_prompts(files[:1])) == 9
    with pytest.raises(UserError, match="no suite d"):
        prompts.suite_files(tmp_path, ["d"])
    (tmp_path / "c.jsonl").write_text('{"text": 1}\n')
    with pytest.raises(UserError, match=r"c\.jsonl line 1 has neither turns nor prompt"):
        prompts.read_prompts(files)


def test_prompts_are_drawn_again_within_their_suites() -> None:
    statistics = part("statistics")
    draws = statistics.draw_again(["a", "b", "b", "a", "b"], draws=50)
    assert draws.shape == (50, 5)
    assert all(sorted(n in (0, 3) for n in draw) == [False] * 3 + [True] * 2 for draw in draws)


def test_a_speed_up_is_no_mean_of_rates() -> None:
    statistics = part("statistics")
    tokens, plain, fast = np.array([10.0, 10.0]), np.array([3.0, 3.0]), np.array([1.0, 3.0])
    draws = statistics.draw_again(["a", "a"])
    columns = [tokens, fast, tokens, plain]
    found = statistics.of_sums(statistics.speed_up, columns, draws)
    assert found.value == 1.5
    assert (found.low, found.high) == (1.0, 3.0)
    middle = statistics.of_medians(statistics.speed_up(*columns), draws)
    assert middle.value == 2.0
    nothing = statistics.of_medians(np.array([np.nan, 2.0]), statistics.draw_again(["a", "b"]))
    assert nothing.value == 2.0


def test_acceptance_lengths_are_pooled_and_of_single_answers() -> None:
    columns = part("columns")
    answers = [
        made(range(101), accepted=80, verified=20),
        made(range(101), accepted=0, verified=100),
        made(range(1)),  # ended at once: nothing was drafted
    ]
    cases = [case(0), case(1), case(2)]
    found = columns.figures(columns.columns_of(answers, cases), np.ones(3, bool))
    assert found["acceptance_length"] == 1.6667
    assert found["acceptance_length_per_request"] == {"mean": 3.0, "sd": 2.8284}
    assert found["acceptance_rate"] == round(80 / 360, 4)
    assert found["tok_s"] == round(200 / 3, 2)
    assert found["tokens_per_step"] == round(200 / 120, 3)
    assert found["prompt_tok_s"] == 40.0


def test_engines_stand_by_their_best_arm_and_floors_by_suite() -> None:
    names = ("plain", "plain/again", "dflash2/3", "dflash2/7", "dflash2/auto", "llama.cpp/Q4_1")
    arms = [arm(name, None if name.endswith("auto") else 3) for name in names]
    cases = [case(0, "a"), case(1, "a"), case(2, "b"), case(3, "b")]
    seconds = {
        "plain": [2.0, 2.0, 2.0, 2.0],
        "plain/again": [2.0, 2.0, 2.0, 2.0],
        "dflash2/3": [1.0, 1.0, 2.2, 2.2],
        "dflash2/7": [0.8, 0.8, 4.0, 4.0],
        "dflash2/auto": [0.8, 0.82, 1.9, 1.9],
        "llama.cpp/Q4_1": [4.0, 4.0, 4.0, 4.0],
    }
    answers = {
        name: [made(seconds=one, accepted=6, verified=4) for one in found]
        for name, found in seconds.items()
    }
    answers["plain"] = answers["plain/again"] = [made(seconds=2.0)] * 4
    document = part("summary").document_of(part("run").Measured(cases, answers), arms)
    assert document["pooled"]["dflash2"]["arm"] == "dflash2/auto"
    assert document["pooled"]["dflash2"]["tok_s"] == round(40 / 5.42, 2)
    assert document["pooled"]["dflash2"]["speed_up"]["value"] == round(8 / 5.42, 4)
    assert document["suites"]["a"]["llama.cpp"]["tok_s"] == 2.5
    assert document["arms"]["dflash2/3"]["suites_tok_s"] == {"a": 10.0, "b": 4.55}
    # Four steps a text, and no time outside of them: promise and measurement are the same.
    assert document["arms"]["dflash2/3"]["predicted_speed_up"]["value"] == 1.25
    assert document["arms"]["dflash2/3"]["measured_over_predicted"]["value"] == 1.0
    assert document["drift"] == {"value": 1.0, "interval": [1.0, 1.0], "holds": True}
    best = document["best_fixed"]["dflash2"]
    assert best["arm"] == "dflash2/3"
    assert best["auto_over_it"]["value"] == pytest.approx((1 / 0.82 + 2.2 / 1.9) / 2, abs=1e-4)
    floors = {one["name"]: (one["value"], one["met"]) for one in document["floors"]}
    assert floors == {
        "dflash2/auto over plain": (round(8 / 5.42, 4), False),
        "dflash2/auto over what acceptance and cycle predict": (1.0, True),
        "dflash2/auto over llama.cpp/Q4_1": (round(16 / 5.42, 4), True),
        "a: dflash2/auto over dflash2/7": (round((1 + 0.8 / 0.82) / 2, 4), True),
        "a: dflash2/auto over plain": (round((2.5 + 2 / 0.82) / 2, 4), True),
        "b: dflash2/auto over dflash2/3": (round(2.2 / 1.9, 4), True),
        "b: dflash2/auto over plain": (round(2 / 1.9, 4), True),
    }
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_what_lies_between_steps_is_missing_from_the_promise() -> None:
    answers = {
        "plain": [made(seconds=2.0)] * 2,
        "dflash2/3": [made(seconds=1.0, accepted=6, verified=4, loop=0.8)] * 2,
    }
    arms = [arm("plain"), arm("dflash2/3", 3)]
    document = part("summary").document_of(part("run").Measured([case(0), case(1)], answers), arms)
    assert document["arms"]["dflash2/3"]["predicted_speed_up"]["value"] == 2.5
    assert document["arms"]["dflash2/3"]["measured_over_predicted"]["value"] == 0.8


def test_one_token_makes_texts_differ() -> None:
    other = [*range(10), 99]
    answers = {
        "plain": [made(), made()],
        "dflash2/3": [made(), made(other)],
        "llama.cpp/Q4_0": [made(other), made(other)],
        "llama.cpp+dflash2/Q4_0/3": [made(other), made()],
    }
    arms = [arm(name) for name in answers]
    found = part("summary").equality(part("run").Measured([case(0), case(1)], answers), arms)
    assert found == {
        "all": False,
        "texts": 2,
        "arms": {"plain": 2, "dflash2/3": 1},
        "llama.cpp": {"llama.cpp+dflash2/Q4_0/3": 1},
    }


def test_texts_that_loop_are_left_out_of_their_group() -> None:
    answers = {"plain": [made(), made([7] * 60)]}
    document = part("summary").document_of(
        part("run").Measured([case(0), case(1)], answers), [arm("plain")]
    )
    assert document["loop_free"]["plain"]["answers"] == 1


def plan(count: int = 2) -> object:
    prompt = module("prompts").Prompt("a", "kind", "text")
    prompts = [(prompt, (1, 2, 3))] * count
    return part("run").Plan(prompts, ["greedy", "seeded"], 16)


def test_arms_take_turns_at_going_first(tmp_path: Path) -> None:
    order: list[str] = []
    asked: list[object] = []

    def asking(name: str) -> Callable[[object], object]:
        def ask(question: object) -> object:
            order.append(name)
            asked.append(question)
            return made()

        return ask

    names = ("plain", "dflash2/1", "dflash2/2")
    arms = [arm(name, ask=asking(name)) for name in names]
    records = tmp_path / "records.jsonl"
    found = part("run").run(arms, plan(), lambda _: None, records)
    firsts = [order[n] for n in range(6, len(order), 3)]  # the first two rounds warm up
    assert firsts == ["plain", "dflash2/1", "dflash2/2", "plain"]
    assert [(one.prompt, one.sampling) for one in found.cases] == [
        (0, "greedy"),
        (0, "seeded"),
        (1, "greedy"),
        (1, "seeded"),
    ]
    assert {one.temperature for one in asked} == {0.0, 0.7}
    assert len({one.seed for one in asked[6:]}) == 2
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert len(lines) == 12
    assert lines[0]["arm"] == "plain"
    assert lines[0]["tokens"] == list(range(11))


def test_an_arm_that_fails_is_left_out_and_an_interrupt_keeps_whole_questions() -> None:
    run = part("run")
    calls = {"dflash2/1": 0, "plain": 0}

    def failing(_: object) -> object:
        calls["dflash2/1"] += 1
        if calls["dflash2/1"] == 4:
            raise UserError("it broke")
        return made()

    def stopping(_: object) -> object:
        calls["plain"] += 1
        if calls["plain"] == 6:
            raise KeyboardInterrupt
        return made()

    arms = [arm("plain", ask=stopping), arm("dflash2/1", ask=failing)]
    found = run.run(arms, plan(), lambda _: None)
    assert found.failed == {"dflash2/1": "it broke"}
    assert len(found.cases) == 3
    assert {name: len(given) for name, given in found.answers.items()} == {"plain": 3}

    def broken(_: object) -> object:
        raise UserError("no plain text")

    with pytest.raises(UserError, match="no plain text"):
        run.run([arm("plain", ask=broken)], plan(), lambda _: None)


def test_calls_of_a_draft_are_told_apart() -> None:
    labels = "embed norm linear convolve linear rotate attend linear convolve norm quantise linear"
    labels += " convolve gated linear convolve norm gather quantise linear top_k gather linear"
    parts = part("cycle").parts_of([*labels.split(), "selector"])
    told = dict(zip(enumerate([*labels.split(), "selector"]), parts, strict=True))
    of = {name: [n for (n, _), one in told.items() if one == name] for name in set(parts)}
    assert of["conv"] == [2, 3, 8, 11, 12, 15]
    assert of["head"] == [19]
    assert of["top_k"] == [20, 21]
    assert of["pairwise"] == [22, 23]


def test_parts_of_a_cycle_sum_to_the_whole() -> None:
    spent = {"draft": 0.2, "verify": 0.6, "choose": 0.04, "commit": 0.02, "observe": 0.06}
    answer = part("answer").Answer(tuple(range(11)), 0.5, 1.0, 4, 2, 6, 6, spent)
    found = part("cycle").cycle_of([answer] * 3, {"conv": 0.1, "head": 0.6})
    expected = {
        "conv": 5.0,
        "head": 30.0,
        "verify": 150.0,
        "sample": 10.0,
        "commit": 5.0,
        "observe": 15.0,
        "host": 35.0,  # 15 of them are the rest of the draft
        "cycle": 250.0,
    }
    assert found == pytest.approx(expected)
    assert part("cycle").cycle_of([made(range(1))], {}) == {}


def test_a_clock_between_kernels_takes_no_time_from_them() -> None:
    timed, cycle = module("cpu_parts.timed"), part("cycle")
    calls = [("embed", 0.5), ("linear", 1.5), ("top_k", 1.0)]
    slowed = cycle._parts_of_pass(timed.TimedPass(("a",), calls, 3.5, 2.4))
    assert slowed["backbone"] == pytest.approx(0.4)
    assert slowed["head"] == pytest.approx(1.2)
    assert slowed["top_k"] == pytest.approx(0.8)
    quick = cycle._parts_of_pass(timed.TimedPass(("a",), calls, 3.5, 3.2))
    assert quick["head"] == 1.5  # the pass has time that no kernel accounts for


PROCESS = """#!{python}
import json, sys
if "--refuse" in open(sys.argv[1]).read():
    sys.exit("cannot load it")
print(json.dumps(dict(ready=True)), flush=True)
for line in sys.stdin:
    temperature, seed, tokens, *prompt = line.split()
    counts = dict(steps=4, verified=4, drafted=12, accepted=int(sys.argv[5]))
    told = dict(tokens=[int(n) for n in prompt] * 11, prompt_ms=20.0, decode_ms=50.0, **counts)
    print(json.dumps(told), flush=True)
    if tokens == "1":
        sys.exit("broke")
"""


def test_a_process_is_asked_and_its_own_clock_believed(tmp_path: Path) -> None:
    processes, answers = part("llama_process"), part("answer")
    binary = tmp_path / "llama_answers"
    binary.write_text(PROCESS.format(python=sys.executable))
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    good.write_text("")
    bad.write_text("--refuse")
    answering = processes.Answering(binary, 2, 512)
    with processes.LlamaProcess(answering, good, good, 6) as process:
        found = [process.ask(answers.Question((7,), 0.0, 1, n)) for n in (16, 1)]
        with pytest.raises(UserError, match="has ended: broke"):
            process.ask(answers.Question((7,), 0.0, 1, 16))
    assert found[0] == answers.Answer((7,) * 11, 0.02, 0.05, 4, 4, 12, 6)
    assert found[1] == found[0]
    with pytest.raises(UserError, match="cannot load it"):
        processes.LlamaProcess(answering, bad)
    with pytest.raises(UserError, match=r"build_llama_answers\.py"):
        processes.LlamaProcess(processes.Answering(tmp_path / "none", 2, 512), good)
    assert processes.line_of(answers.Question((7, 8), 0.7, 5, 16)) == "0.7 5 16 7 8"


def test_a_whole_run_gives_one_document(tmp_path: Path) -> None:
    pytest.importorskip("draftwalk._native")
    speculation = module("speculation")
    lines = ["say a", "say bb", "and c", "or d"]
    for suite in ("one", "two"):
        texts = [json.dumps({"turns": [f"{suite}: {line}"], "category": "talk"}) for line in lines]
        (tmp_path / f"{suite}.jsonl").write_text("\n".join(texts))
    target = write_target(tmp_path / "target.gguf")
    drafters = {
        "--drafter": write_drafter(tmp_path / "dflash2"),
        "--dflash": write_drafter(tmp_path / "dflash", selector=False),
    }
    arguments = ["--target", str(target), "--data", str(tmp_path), "--limit", "2"]
    arguments += [word for name, path in drafters.items() for word in (name, str(path))]
    arguments += ["--tokens", "12", "--windows", "1", "3", "99", "--threads", "1"]
    arguments += ["--engines", "plain", "dflash", "dflash2", "--context", "256"]
    asked = speculation.parse(arguments)
    with ExitStack() as stack:
        document = speculation.bench(asked, stack)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document)[:2] == ["pooled", "suites"]
    assert document["pooled"].keys() == {"plain", "dflash", "dflash2"}
    assert document["suites"].keys() == {"one", "two"}
    assert document["equal"]["all"]
    assert document["equal"]["texts"] == 8
    arms = document["arms"]
    assert "dflash2/99" not in arms  # no wider than the drafter's block
    assert {"plain", "plain/again", "dflash/1", "dflash2/3", "dflash2/auto"} <= arms.keys()
    assert all(entry["tok_s"] > 0 for entry in arms.values())
    assert arms["dflash2/3"]["acceptance_length"] >= 1
    cycle = document["cycles"]["dflash2/3"]
    shown = set(part("cycle").PARTS)
    assert shown == cycle.keys() - {"cycle"}
    assert sum(cycle[name] for name in shown) == pytest.approx(cycle["cycle"], abs=0.01)
    assert all(cycle[name] > 0 for name in ("conv", "head", "top_k", "gather", "walk"))
    console = Console(width=200, record=True, file=(tmp_path / "shown").open("w"))
    part("tables").show(document, console)
    assert "all 8, in every arm" in console.export_text()


def test_a_plot_is_written_where_matplotlib_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    answers = {
        "plain": [made(seconds=2.0)] * 2,
        "dflash2/3": [made(seconds=1.0, accepted=6, verified=4)] * 2,
    }
    arms = [arm("plain"), arm("dflash2/3", 3)]
    document = part("summary").document_of(
        part("run").Measured([case(0), case(1, "b")], answers), arms
    )
    document["cycles"] = {
        name: part("cycle").cycle_of(given, {}) for name, given in answers.items()
    }
    path = tmp_path / "plot.png"
    part("plot").plot(document, path)
    assert path.read_bytes().startswith(b"\x89PNG")
