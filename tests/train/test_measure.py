"""What is said of a drafter, worked out by hand from a few steps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.vocabulary import DraftVocabulary
from draftwalk.engine import Engine, load
from draftwalk.errors import UserError
from draftwalk.train.measure import assess, measure
from draftwalk.train.measurement import Acceptance, Errors, Worth
from draftwalk.train.shards import AnswerFacts, AnswerSet
from draftwalk.train.visits import Visits, Walk
from draftwalk.weights import GgufCheckpoint
from draftwalk.window.fit import Outcome
from support.talking_model import VOCABULARY, write_checkpoint, write_target
from support.walks import SETTINGS, knowing, recorded

FACTS = AnswerFacts("1", "a", greedy=True, seed=0, loop=None, finish="length")
K = 3
# Answer, place, drafted, the text, and the right tokens' ranks. The last but one is in a loop; the
# last is a place where only the walk of window 1 stands.
STEPS = (
    (0, 10, (5, 6, 7), (5, 6, 9), (0, 1, 2)),
    (0, 600, (5, 6, 7), (5, 6, 7), (0, 0, 1)),
    (1, 20, (1, 2, 3), (4, 4, 4), (0, 3, 3)),
    (1, 21, (1, 2, -1), (1, 8, 8), (0, 3, 0)),
    (1, 30, (1, 2, 3), (1, -1, -1), (1, 3, 3)),
    (2, 9000, (1, 2, 3), (1, 2, 3), (0, 0, 0)),
    (1, 40, (9, 9, 9), (1, 1, 1), (3, 3, 3)),
)
WORDS = DraftVocabulary(torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 9]), 10)


def by_hand() -> Walk:
    columns = [np.array(column) for column in zip(*STEPS, strict=True)]
    answers, places, drafted, truth, ranks = columns
    walks = np.ones((len(STEPS), 2), dtype=bool)
    walks[-1, 1] = False
    confidence = np.arange(3 * len(STEPS)).reshape(-1, 3) / 100
    visits = Visits(answers, places, walks, truth, drafted, confidence, ranks)
    facts = (FACTS, replace(FACTS, source="b"), replace(FACTS, loop=8999))
    return Walk(facts, np.array([100, 50, 9]), (1, 3), K, visits)


@pytest.fixture
def worth() -> Worth:
    found = assess(by_hand(), WORDS, 0.0).loop_free
    assert found is not None
    return found


def test_acceptance_at_windows(worth: Worth) -> None:
    assert worth.answers == 2
    assert worth.tokens == 150
    per_answer = (1 + 5 / 2 + 1 + 2 / 3) / 2
    assert worth.windows[3] == Acceptance(2, 5, 14, 7, 1 + 7 / 5, pytest.approx(per_answer))
    per_answer = (2 + 1 + 2 / 4) / 2
    assert worth.windows[1] == Acceptance(2, 6, 6, 4, 1 + 4 / 6, pytest.approx(per_answer))


def test_suites_and_positions(worth: Worth) -> None:
    assert {suite: found[3].accepted for suite, found in worth.suites.items()} == {"a": 5, "b": 2}
    assert worth.suites["b"][1].steps == 4
    assert {name: found.steps for name, found in worth.positions.items()} == {
        "up to 512": 4,
        "up to 2048": 1,
    }


def test_offsets(worth: Worth) -> None:
    counts = [
        (one.at_risk, one.right, one.covered, one.selected, one.accepted) for one in worth.offsets
    ]
    assert counts == [(5, 4, 5, 4, 4), (3, 1, 2, 2, 2), (2, 0, 2, 1, 1)]
    survival = [one.survival for one in worth.offsets]
    assert survival == [4 / 5, 2 / 5, 1 / 5]
    assert worth.offsets[1].recall_1 == 1 / 3
    assert worth.offsets[1].recall_k == 2 / 3
    assert worth.offsets[2].selector_accuracy == 1 / 2


def test_what_limits_it(worth: Worth) -> None:
    assert worth.errors == Errors(none=2, walk=1, unary=1, coverage=1, vocabulary=1)
    assert worth.unary_length == 1 + (1 + 2 + 1 + 1 + 0) / 5
    assert worth.oracle_length == 1 + (3 + 3 + 1 + 1 + 1) / 5


def test_loops_stand_apart() -> None:
    found = assess(by_hand(), None, 0.7)
    assert (found.block, found.answers, found.tokens, found.steps) == (4, 3, 159, 6)
    assert found.looping is not None
    assert found.looping.windows[3].length == 4.0
    assert [*found.looping.positions] == ["after 8192"]
    assert found.loop_free is not None
    assert found.loop_free.errors.vocabulary == 0, "with its whole head"


def test_outcomes_are_those_of_tokens_at_risk() -> None:
    outcomes = assess(by_hand(), None, 0.7).outcomes
    assert len(outcomes) == 5 + 3 + 2 + 3
    assert sum(one.accepted for one in outcomes) == 7 + 3
    assert outcomes[:3] == (
        Outcome(0, 0.0, 0.7, True),
        Outcome(1, 0.01, 0.7, True),
        Outcome(2, 0.02, 0.7, False),
    )
    assert Outcome(1, 0.1, 0.7, False) in outcomes, "a wrong token that was verified"
    assert not any(one.confidence in (0.11, 0.13, 0.18) for one in outcomes)


def test_json() -> None:
    text = json.dumps(assess(by_hand(), None, 0.0).as_json(), allow_nan=False)
    read = json.loads(text)
    assert read["loop_free"]["windows"]["3"]["length"] == 2.4
    assert read["loop_free"]["offsets"][0]["survival"] == 0.8
    assert "outcomes" not in read


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, AnswerSet]:
    """A target, a drafter that knows its answers, and these."""
    folder = tmp_path_factory.mktemp("measure")
    engine = load(write_target(folder / "t.gguf", stops_for="e"), plain=True)
    data = recorded(engine, folder / "answers")
    assert isinstance(engine.checkpoint, GgufCheckpoint)
    drafter = write_checkpoint(folder / "d2", knowing(data, engine.checkpoint))
    return folder / "t.gguf", drafter, data


def drafter_of(engine: Engine) -> BlockDrafter:
    assert isinstance(engine.drafter, BlockDrafter)
    return engine.drafter


def test_greedy_and_sampled_answers_are_measured_apart(files: tuple[Path, Path, AnswerSet]) -> None:
    target, folder, data = files
    drafter = drafter_of(load(target, folder))
    told: list[tuple[int, int]] = []
    greedy = measure(drafter, data, data.facts, (1,), report=lambda *done: told.append(done))
    sampled = measure(drafter, data, data.facts, (1,), sampled=True)
    assert greedy.answers == sum(one.facts.greedy for one in data)
    assert sampled.answers == len(data) - greedy.answers > 0
    assert (greedy.temperature, sampled.temperature) == (0.0, SETTINGS.temperature)
    assert greedy.tokens + sampled.tokens == sum(int(one.learned.sum()) for one in data)
    assert greedy.loop_free is not None
    assert [*greedy.loop_free.windows] == [1, 5]
    assert greedy.loop_free.windows[5].length > greedy.loop_free.windows[1].length > 1.05
    assert 1 + sum(one.survival or 0.0 for one in greedy.loop_free.offsets) == pytest.approx(
        greedy.loop_free.windows[5].length
    )
    assert told[-1][0] <= greedy.answers
    assert told[-1][1] >= greedy.steps


def test_a_drafters_own_vocabulary_is_used(
    files: tuple[Path, Path, AnswerSet], tmp_path: Path
) -> None:
    target, folder, data = files
    listed = tmp_path / "listed.txt"
    listed.write_text("\n".join(str(token) for token in range(0, VOCABULARY - 10)))
    drafter = drafter_of(load(target, folder, draft_vocabulary=listed))
    found = measure(drafter, data, data.facts, (5,)).loop_free
    assert found is not None
    assert 0 < found.errors.vocabulary <= found.errors.coverage


def test_nothing_to_measure(files: tuple[Path, Path, AnswerSet]) -> None:
    target, folder, data = files
    greedy = [one for one in data if one.facts.greedy]
    with pytest.raises(UserError, match="0 answers have nothing to draft"):
        measure(drafter_of(load(target, folder)), greedy, data.facts, sampled=True)
