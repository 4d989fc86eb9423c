from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch

from draftwalk.engine import Engine, Placement, load
from draftwalk.errors import PromptError, UserError
from draftwalk.prompt.messages import Message
from draftwalk.settings import Limits, Sampling
from draftwalk.train.anchors import anchor_places, blocks_at
from draftwalk.train.answers import AnswerSettings, Progress, answer
from draftwalk.train.conversations import Conversation, read_conversations
from draftwalk.train.lock import alone_in
from draftwalk.train.mask import reserved_token
from draftwalk.train.model import TargetTables
from draftwalk.train.recorder import Recorder
from draftwalk.train.self_prompts import draw_prompts, write_self_prompts
from draftwalk.train.shards import AnswerSet
from support.talking_model import END, VOCABULARY, write_target

TAPS = (0, 2)
SETTINGS = AnswerSettings(TAPS, max_tokens=40, most_prompt=120, parallel=3, whole=True)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    path = write_target(tmp_path_factory.mktemp("model") / "target.gguf")
    return load(path, placement=Placement(context=256, back_end="torch"), plain=True)


def talks(*turns: str, key: str = "k") -> Conversation:
    return Conversation(key, "file", turns)


def go_on(_: Progress) -> bool:
    return True


def features_alone(engine: Engine, tokens: list[int]) -> torch.Tensor:
    """Features of a text that is read in one pass."""
    recorder = Recorder(TAPS)
    alone = Engine(engine.checkpoint, engine.target, recorder, engine.placement)
    text = alone.start(tokens, Sampling(), Limits(1))
    alone.loop.step()
    alone.release(text)
    return recorder.take(text.slot)


def test_answers_are_the_engines_own_with_the_features_of_their_tokens(
    engine: Engine, tmp_path: Path
) -> None:
    asked = [talks(f"What is {n}?", key=str(n)) for n in range(7)]
    done = answer(engine, asked, tmp_path, SETTINGS, go_on)
    data = AnswerSet(tmp_path, verify=True)
    assert done.prompts == len(data) == 7
    by_key = {one.facts.key: one for one in data}
    sampled = {c.key for c in asked if c.sampled(SETTINGS.sampled)}
    assert 0 < len(sampled) < 7
    for c in asked:
        one = by_key[c.key]
        prompt = engine.encode_chat([Message("user", c.turns[0])])
        seeded = Sampling(temperature=0.7, seed=c.seed)
        alone = engine.complete([prompt], seeded if c.key in sampled else Sampling(), Limits(40))[0]
        assert one.tokens.tolist() == [*prompt, *alone.tokens]
        assert one.learned.tolist() == [False] * len(prompt) + [True] * len(alone.tokens)
        assert one.facts.greedy == (c.key not in sampled)
        expected = features_alone(engine, one.tokens.tolist())[: len(one.tokens) - 1]
        torch.testing.assert_close(one.features, expected, atol=0.02, rtol=0.02)


def test_the_last_layers_outputs_say_what_the_target_chose(engine: Engine, tmp_path: Path) -> None:
    """What is learned from them must stand at the right places, or it teaches nonsense."""
    last = engine.target.depth - 1
    asked = [talks(f"What is {n}?", key=str(n)) for n in range(4)]
    answer(engine, asked, tmp_path, replace(SETTINGS, taps=(0, last), sampled=0.0), go_on)
    tables = TargetTables.of(engine.checkpoint, engine.target, torch.device("cpu"))
    assert tables.last == last
    for one in AnswerSet(tmp_path):
        blocks = blocks_at(one, anchor_places(one), 5)
        rows = one.features[blocks.choosers[blocks.learned], engine.target.width :]
        said = (tables.finish(rows.float()) @ tables.head.T).argmax(-1)
        # bfloat16 may turn a near-tie.
        assert (said == blocks.labels[blocks.learned]).double().mean() > 0.97


def test_a_run_goes_on_where_it_stopped(engine: Engine, tmp_path: Path) -> None:
    asked = [talks(f"Say {n}.", key=str(n)) for n in range(4)]
    answer(engine, asked[:2], tmp_path, SETTINGS, go_on)
    done = answer(engine, asked, tmp_path, SETTINGS, go_on)
    assert done.total == 2
    assert sorted(one.facts.key for one in AnswerSet(tmp_path)) == ["0", "1", "2", "3"]


def test_prompts_are_known_again_by_their_texts(engine: Engine, tmp_path: Path) -> None:
    """Neither by their identifiers, which files share, nor by their places in files."""
    answer(engine, [talks("Say this.")], tmp_path, SETTINGS, go_on)
    same = Conversation("another", "elsewhere", ("Say this.",))
    done = answer(engine, [same, talks("Say that."), talks("Say it.")], tmp_path, SETTINGS, go_on)
    assert done.total == done.answers == 2
    assert [one.facts.key for one in AnswerSet(tmp_path)] == ["k", "k", "k"]


def test_nobody_answers_into_a_folder_of_another(engine: Engine, tmp_path: Path) -> None:
    with alone_in(tmp_path), pytest.raises(UserError, match="another process"):
        answer(engine, [talks("Say this.")], tmp_path, SETTINGS, go_on)
    assert answer(engine, [talks("Say this.")], tmp_path, SETTINGS, go_on).answers == 1


def test_a_run_that_is_stopped_keeps_what_there_is(engine: Engine, tmp_path: Path) -> None:
    asked = [talks(f"Say {n}.", key=str(n)) for n in range(9)]
    steps = iter([True] * 25 + [False])
    answer(engine, asked, tmp_path, SETTINGS, lambda _: next(steps))
    data = AnswerSet(tmp_path)
    assert len(data) == SETTINGS.parallel
    assert all(one.facts.finish == "length" for one in data)
    assert all(20 <= int(one.learned.sum()) < 40 for one in data)


def test_turns_follow_each_other(tmp_path: Path) -> None:
    """The second turn stands behind the target's own first answer, and both are learned."""
    path = write_target(tmp_path / "target.gguf", stops_for="e")
    engine = load(path, placement=Placement(context=256, back_end="torch"), plain=True)
    settings = replace(SETTINGS, sampled=1.0, max_tokens=90, parallel=4)
    asked = [talks(f"First {n}", f"Then {n}", key=str(n)) for n in range(8)]
    answer(engine, asked, tmp_path / "answers", settings, go_on)
    spans = {}
    for one in AnswerSet(tmp_path / "answers"):
        edges = one.learned.int().diff().nonzero()[:, 0].tolist()
        spans[one.facts.key] = sum(bool(one.learned[n + 1]) for n in edges)
        for n in edges:
            if not one.learned[n + 1]:  # the end of a first answer, which had ended by itself
                assert int(one.tokens[n]) == END
        text = engine.tokenizer.decode(one.tokens.tolist())
        assert f"First {one.facts.key}" in text
        assert (f"Then {one.facts.key}" in text) == (spans[one.facts.key] == 2)
    assert {1, 2} >= set(spans.values())
    assert 2 in spans.values()


@pytest.mark.parametrize("stopped", [False, True], ids=["too long", "stopped"])
def test_earlier_turns_stay_where_there_is_no_later_one(tmp_path: Path, stopped: bool) -> None:
    """The next message is too long, or all is stopped before it is answered."""
    path = write_target(tmp_path / "target.gguf", stops_for="e", thought=0.3)
    engine = load(path, placement=Placement(context=512, back_end="torch"), plain=True)
    settings = replace(SETTINGS, sampled=0.0, max_tokens=150, parallel=1)
    for number in range(40):  # up to one whose answer ends by itself
        folder, text = tmp_path / "alone" / f"{number}", f"First {number}"
        alone = answer(engine, [talks(text)], folder, settings, go_on)
        if alone.answers and AnswerSet(folder)[0].facts.finish == "stop":
            break
    asked = talks(text, "Then" if stopped else "a" * 200)
    steps = count(1)

    def until_the_first_has_ended(_: Progress) -> bool:
        return not stopped or next(steps) < alone.tokens

    done = answer(engine, [asked], tmp_path / "both", settings, until_the_first_has_ended)
    assert (done.answers, done.skipped) == (1, 0)
    (one,), (other,) = AnswerSet(tmp_path / "both"), AnswerSet(folder)
    assert one.facts.finish == "stop"
    assert one.tokens.tolist() == other.tokens.tolist()
    assert torch.equal(one.learned, other.learned)
    assert torch.equal(one.features, other.features)


def test_loops_are_cut_or_kept(tmp_path: Path) -> None:
    path = write_target(tmp_path / "target.gguf", thought=0.0)
    engine = load(path, placement=Placement(context=256, back_end="torch"), plain=True)
    asked = [talks(f"Go on {n}", key=str(n)) for n in range(3)]
    cutting = AnswerSettings(TAPS, sampled=0.0, max_tokens=150, parallel=3)
    answer(engine, asked, tmp_path / "cut", cutting, go_on)
    answer(engine, asked, tmp_path / "whole", replace(cutting, whole=True), go_on)
    cut = {one.facts.key: one for one in AnswerSet(tmp_path / "cut")}
    looped = [one for one in AnswerSet(tmp_path / "whole") if one.facts.loop is not None]
    assert len(looped) == 3
    for one in looped:
        assert int(one.learned.sum()) == 150
        mine = cut[one.facts.key]
        assert mine.facts.finish == "loop"
        assert len(mine.tokens) == one.facts.loop == mine.facts.loop
        assert torch.equal(mine.tokens, one.tokens[: len(mine.tokens)])


def test_long_prompts_are_skipped(engine: Engine, tmp_path: Path) -> None:
    asked = [talks("a" * 200, key="long"), talks("short one", key="short")]
    done = answer(engine, asked, tmp_path, SETTINGS, go_on)
    assert done.skipped == 1
    assert [one.facts.key for one in AnswerSet(tmp_path)] == ["short"]


def test_another_setting_needs_another_folder(engine: Engine, tmp_path: Path) -> None:
    answer(engine, [talks("One thing")], tmp_path, SETTINGS, go_on)
    other = AnswerSettings((1,), max_tokens=40)
    with pytest.raises(UserError, match="another folder"):
        answer(engine, [talks("Two things")], tmp_path, other, go_on)


def test_conversations_are_read_once_each_in_an_order_of_their_own(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(
        "".join(json.dumps({"id": n, "turns": [f"text {n}"]}) + "\n" for n in range(50))
    )
    second.write_text('{"prompt": "text 3"}\n\n{"turns": ["x", "y"]}\n')
    read = read_conversations([first, second])
    assert len(read) == 51
    assert {c.turns for c in read} == {(f"text {n}",) for n in range(50)} | {("x", "y")}
    assert [c.turns for c in read] == [c.turns for c in read_conversations([second, first])]
    assert [c.key for c in read] != sorted((c.key for c in read), key=int)
    assert 10 < sum(c.sampled(0.5) for c in read) < 40


def test_what_is_drawn_for_a_prompt_has_its_share() -> None:
    made = [talks(f"text {n}") for n in range(2000)]
    assert 60 < sum(c.one_of(20) for c in made) < 150
    assert 10 < sum(c.one_of(20) and c.sampled(0.35) for c in made) < 65


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_files_without_prompts_are_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(PromptError, match=r"p\.jsonl has no prompts"):
        read_conversations([tmp_path / "p.jsonl"])


def test_the_time_may_be_too_short_for_prompts(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"the time was too short"):
        write_self_prompts(engine, 8, tmp_path / "p.jsonl", 4, lambda _: False)
    assert not (tmp_path / "p.jsonl").exists()


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[]", '{"turns": []}', '{"turns": [1]}', '{"text": "a"}', "[" * 100_000),
        *('{"prompt": "half \\ud800"}', '{"turns": ["fine", "\\udc00"]}'),
    ],
    ids=lambda line: line[:20],
)
def test_lines_that_are_no_prompts_are_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "fine"}\n' + line)
    with pytest.raises(PromptError, match=r"p\.jsonl line 2"):
        read_conversations([file])


def test_a_reserved_token_is_none_that_texts_have(engine: Engine) -> None:
    assert reserved_token(engine) == VOCABULARY - 1  # <mask>


def test_prompts_of_the_target_are_the_same_every_time(tmp_path: Path) -> None:
    path = write_target(tmp_path / "target.gguf", stops_for="e")
    engine = load(path, placement=Placement(context=256, back_end="torch"), plain=True)
    found = draw_prompts(engine, 8, 4, lambda _: True)
    assert found
    assert found == draw_prompts(engine, 8, 8, lambda _: True)
    write_self_prompts(engine, 8, tmp_path / "p.jsonl", 4, lambda _: True)
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert [json.loads(line)["turns"][0] for line in lines] == list(found.values())
