"""The walk through stored answers takes the engine's own steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from draftwalk.draft.block import BlockDrafter
from draftwalk.engine import Engine, Placement, load
from draftwalk.errors import UserError
from draftwalk.ops.choice import BackEnd
from draftwalk.result import Result
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.train.measure import acceptance
from draftwalk.train.shards import Answer, AnswerFacts, AnswerSet
from draftwalk.train.turns import Turn, turns_of
from draftwalk.train.visits import Walk
from draftwalk.train.walk import walk
from draftwalk.weights import GgufCheckpoint
from support.models import BLOCK, drafter_checkpoint
from support.talking_model import VOCABULARY, WIDTH, write_checkpoint, write_target
from support.walks import MOST, TAPS, hears_rounded, knowing, recorded, turns

FULL = BLOCK - 1
Told = tuple[int, tuple[int, ...], int]  # a step: the anchor's place, the draft, what stood


class World:
    """A target, its recorded answers, and folders of drafters."""

    def __init__(self, folder: Path, back_end: BackEnd) -> None:
        self.placement = Placement(dtype=torch.float64, back_end=back_end)
        if back_end == "native":
            self.placement = Placement(back_end=back_end)
        self.target = write_target(folder / "t.gguf", stops_for="e")
        engine = load(self.target, placement=self.placement, plain=True)
        self.data = recorded(engine, folder / "answers")
        assert isinstance(engine.checkpoint, GgufCheckpoint)
        knows = knowing(self.data, engine.checkpoint)
        short = knowing(self.data, engine.checkpoint, context=70)
        random = drafter_checkpoint(VOCABULARY, WIDTH, TAPS, selector=False)
        self.drafters = {
            "knowing": write_checkpoint(folder / "knowing", knows),
            "short": write_checkpoint(folder / "short", short),
            "random": write_checkpoint(folder / "random", random),
        }

    def engine(self, drafter: str) -> Engine:
        return load(self.target, self.drafters[drafter], self.placement)


@pytest.fixture(scope="module", params=["torch", "native"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    if request.param == "native":
        pytest.importorskip("draftwalk._native")
    return World(tmp_path_factory.mktemp("walk"), request.param)


def drafter_of(engine: Engine) -> BlockDrafter:
    assert isinstance(engine.drafter, BlockDrafter)
    return engine.drafter


def asked(engine: Engine, data: AnswerSet, window: int) -> list[list[Result]]:
    """What the engine does with the prompts of all turns of every answer."""
    texts = []
    for one in data:
        sampling = Sampling()
        if not one.facts.greedy:
            sampling = Sampling(temperature=data.facts.temperature, seed=one.facts.seed)
        prompts = [one.tokens[:first].tolist() for first, _ in turns(one)]
        limits, most = Limits(MOST), Window(n_max=window)
        texts.append([engine.start(prompt, sampling, limits, most) for prompt in prompts])
    while engine.loop.busy:
        engine.loop.step()
    return [[Result.of(text) for text in some] for some in texts]


def told(results: Sequence[Result]) -> list[Told]:
    """Steps with a draft, of all turns."""
    steps = []
    for result in results:
        length = result.prompt_tokens
        for step in result.steps:
            if step.draft:
                steps.append((length - 1, step.draft, step.accepted))
            length += len(step.tokens)
    return steps


def walked(way: Walk, number: int, window: int) -> list[Told]:
    """The same of a walk through one answer."""
    steps = way.at(window)
    steps = steps.where(steps.answers == number)
    return [
        (place, tuple(token for token in drafted[:window] if token >= 0), min(window, accepted))
        for place, drafted, accepted in zip(
            steps.places.tolist(), steps.drafted.tolist(), steps.accepted.tolist(), strict=True
        )
    ]


def test_the_answers_have_every_kind_of_end(world: World) -> None:
    facts = [world.data.about(n) for n in range(len(world.data))]
    assert {(one.greedy, one.finish) for one in facts} == {
        (greedy, finish) for greedy in (True, False) for finish in ("stop", "length")
    }
    assert {len(turns(one)) for one in world.data} == {1, 2}


@pytest.mark.parametrize(
    ("finish", "last", "limit"), [("stop", 18, 30), ("length", 17, 20), ("loop", 17, 20)]
)
def test_a_text_that_was_cut_ends_where_it_was_cut(finish: str, last: int, limit: int) -> None:
    facts = AnswerFacts("1", "a", greedy=True, seed=0, loop=None, finish=finish)
    learned = torch.tensor([False] * 3 + [True] * 4 + [False] * 3 + [True] * 10)
    one = Answer(facts, torch.arange(20), learned, torch.zeros(19, 4))
    earlier = Turn(first=3, last=5, end=7, limit=23)
    assert turns_of(one, 20, 99) == [earlier, Turn(10, last, 20, limit)]
    assert turns_of(one, 20, 12) == [earlier, Turn(10, 12, 20, limit)]
    assert turns_of(one, 20, 9) == [earlier], "behind the drafter's context"
    assert turns_of(one, 4, 99)[0] == Turn(3, 4, 7, 7), "it stopped with its last token"


@pytest.mark.parametrize(
    ("drafter", "window"),
    [("knowing", 1), ("knowing", 3), ("knowing", FULL), ("short", FULL), ("random", 3)],
)
def test_steps_are_the_engines(world: World, drafter: str, window: int) -> None:
    engine = hears_rounded(world.engine(drafter))
    way = walk(drafter_of(world.engine(drafter)), world.data, world.data.facts, (window,))
    timings = []
    for number, results in enumerate(asked(engine, world.data, window)):
        one = world.data[number]
        said = [token for result in results for token in result.tokens]
        assert said == one.tokens[one.learned].tolist()
        assert walked(way, number, window) == told(results)
        timings += [result.timings for result in results]
    worth = acceptance(way.at(window), window)
    assert worth.steps == sum(one.verify_n for one in timings)
    assert worth.drafted == sum(one.draft_n for one in timings)
    assert worth.accepted == sum(one.draft_n_accepted for one in timings)
    if drafter == "knowing":
        assert worth.length > 1.15


def test_the_short_drafter_stops_before_some_texts_do(world: World) -> None:
    way = walk(drafter_of(world.engine("short")), world.data, world.data.facts, (FULL,))
    assert way.visits.places.max() <= 70 - BLOCK < max(len(one.tokens) for one in world.data)


def test_company_and_other_windows_change_nothing(world: World) -> None:
    drafter, some = drafter_of(world.engine("knowing")), [world.data[n] for n in range(4)]
    together = walk(drafter, some, world.data.facts)
    assert together.windows == (1, 2, 3, 4, 5)
    for window in (2, FULL):
        alone = walk(drafter, some, world.data.facts, (window,), parallel=1)
        assert alone.windows == ((2, FULL) if window == 2 else (FULL,))
        for number in range(len(some)):
            assert walked(alone, number, window) == walked(together, number, window)
    visited = {*zip(together.visits.answers.tolist(), together.visits.places.tolist(), strict=True)}
    assert len(visited) == len(together.visits), "a block is drafted once"


def test_ranks_are_those_of_the_right_tokens(world: World) -> None:
    way = walk(drafter_of(world.engine("knowing")), world.data, world.data.facts, (2,))
    right = way.visits.judged & (way.visits.drafted == way.visits.truth)
    assert (way.visits.ranks[right] < way.candidates).all(), "what was drafted was a candidate"
    assert (way.visits.ranks == way.candidates).any()
    assert (way.visits.ranks == 0).any()
    plain = walk(drafter_of(world.engine("random")), world.data, world.data.facts, (2,))
    greedy = np.array([facts.greedy for facts in plain.facts])[plain.visits.answers]
    best = (plain.visits.drafted == plain.visits.truth)[greedy] & plain.visits.judged[greedy]
    assert (best == ((plain.visits.ranks[greedy] == 0) & plain.visits.judged[greedy])).all()


def test_the_truth_ends_with_the_turn(world: World) -> None:
    visits = walk(drafter_of(world.engine("knowing")), world.data, world.data.facts, (FULL,)).visits
    for number, place, truth in zip(visits.answers, visits.places, visits.truth, strict=True):
        one = world.data[int(number)]
        end = next(end for first, end in turns(one) if first <= place < end)
        known = one.tokens[place + 1 : min(end, place + 1 + FULL)].tolist()
        assert truth.tolist() == known + [-1] * (FULL - len(known))


def test_slots_are_given_back(world: World) -> None:
    drafter = drafter_of(world.engine("knowing"))

    def stop(_done: int, drafts: int) -> None:
        if drafts > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        walk(drafter, world.data, world.data.facts, parallel=4, report=stop)
    assert len(walk(drafter, [world.data[0]], world.data.facts, (FULL,)).visits)


def test_refusals(world: World) -> None:
    drafter = drafter_of(world.engine("knowing"))
    for windows in ((0,), (BLOCK,)):
        with pytest.raises(UserError, match=f"window of {windows[0]}"):
            walk(drafter, world.data, world.data.facts, windows)
    with pytest.raises(UserError, match=r"layers \[1, 0\], not of \[2\]"):
        walk(drafter, world.data, replace(world.data.facts, taps=(1, 0)))
    with pytest.raises(UserError, match="0 answers have nothing to draft"):
        walk(drafter, [], world.data.facts)
