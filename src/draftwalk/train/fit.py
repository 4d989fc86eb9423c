"""The second stage: a drafter learns to say what the target said.

An update takes some answers, puts blocks at drawn anchors in each, and adds their gradients. All
that is drawn depends on the seed, the update and the answer, so a run that was resumed, or that is
spread over several processes, does what one undisturbed process does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor

from draftwalk.errors import UserError
from draftwalk.train.anchors import Lesson, blocks_at, draw_anchors
from draftwalk.train.checkpoints import Standing
from draftwalk.train.features import check_taps
from draftwalk.train.head import Columns, restricted_head, whole_head
from draftwalk.train.model import LearningDrafter
from draftwalk.train.objective import Losses, Objective, losses
from draftwalk.train.optimisers import Optimisers, OptimiserSettings
from draftwalk.train.order import DataOrder
from draftwalk.train.precision import Precision, matmul_precision
from draftwalk.train.processes import Processes
from draftwalk.train.schedule import Schedule
from draftwalk.train.shards import Answer, AnswerSet
from draftwalk.train.weighting import rarity_of

_ROWS_OF_A_PASS = 4096.0


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How a drafter is trained.

    Attributes:
        answers: in an update.
        anchors: in an answer, at most.
        lengths: rows of blocks, one of which is drawn for each answer in an update. Late tokens
            are seldom reached, so most blocks need not have them; a causal drafter's shorter block
            is the beginning of a longer one. Empty: always the drafter's block.
        frequent: columns of the head that are always there; 0 is the whole head.
        drawn: further columns, drawn for each update.
        inject: updates in which right tokens that are no candidates become some.
        seed: of everything that is drawn.
        objective: how offsets are weighed.
        optimiser: rates and the rest.
        frozen: parts of names of parameters that stay as they start.
        precision: of products of matrices in an update.
    """

    answers: int = 4
    anchors: int = 48
    lengths: tuple[int, ...] = ()
    frequent: int = 6144
    drawn: int = 512
    inject: int = 100
    seed: int = 1
    objective: Objective = field(default_factory=Objective)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    frozen: tuple[str, ...] = ()
    precision: Precision = "medium"


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over an update; lists are by offset in the block.

    Attributes:
        loss: what was minimised, per block.
        blocks: how many.
        learned, head, right, covered, selected: rows, their cross entropy, and how many were right
            by the head alone, had the right token as a candidate, were right by the selector.
        at_risk, accepted: rows all of whose predecessors would be accepted, and those of them that
            would be, too.
    """

    loss: float
    blocks: int
    learned: list[float]
    head: list[float]
    right: list[float]
    covered: list[float]
    selected: list[float]
    at_risk: list[float]
    accepted: list[float]

    @property
    def acceptance_length(self) -> float:
        """At drawn anchors, the bonus token included; a step's anchors are harder than these."""
        length = survival = 1.0
        for hit, tried in zip(self.accepted, self.at_risk, strict=True):
            survival *= hit / max(1.0, tried)
            length += survival
        return length

    @staticmethod
    def of(parts: Sequence[Losses], block: int, processes: Processes) -> Counts:
        """The sums of several passes' losses, over all processes.

        Args:
            parts: one a pass; blocks may have fewer rows than `block`.
            block: rows of the longest.
            processes: whose parts are added.
        """
        sums = torch.zeros(len(_COUNTED) + 1, max(2, block - 1), dtype=torch.float64)
        for part in parts:
            for row, count in enumerate(_COUNTED):
                values = count(part)
                sums[row, : values.shape[1]] += values.double().sum(0).cpu()
            sums[-1, :2] += torch.tensor([float(part.total.detach()), len(part.learned)])
        processes.add([sums])
        *rows, (loss, blocks, *_) = sums.tolist()
        offsets = [row[: block - 1] for row in rows]
        return Counts(loss / max(1.0, blocks), int(blocks), *offsets)


_COUNTED: tuple[Callable[[Losses], Tensor], ...] = (
    lambda part: part.learned,
    lambda part: part.head,
    lambda part: part.right,
    lambda part: part.covered,
    lambda part: part.selected,
    lambda part: part.at_risk,
    lambda part: part.accepted & part.at_risk,
)


class Fit:
    """A run in memory.

    Args:
        drafter: what is trained.
        data: what it learns from.
        settings: how.
        schedule: of the learning rate.
        processes: that share the work.

    Raises:
        UserError: the answers do not fit the drafter.
    """

    def __init__(
        self,
        drafter: LearningDrafter,
        data: AnswerSet,
        settings: FitSettings,
        schedule: Schedule,
        processes: Processes | None = None,
    ) -> None:
        self._processes = processes or Processes()
        if settings.answers < self._processes.count:
            raise UserError(
                f"{self._processes.count} processes cannot share the {settings.answers} answers "
                "of an update",
                f"take --batch {self._processes.count} or more",
            )
        self.drafter = drafter
        self.settings = settings
        self.schedule = schedule
        self.step = 0
        self.anchors = 0
        self.gradient = 0.0
        self._data = data
        check_taps(data.facts, drafter.config.taps)
        usable = usable_answers(data)
        if not usable:
            raise UserError(f"all answers in {data.folder} loop", "make answers to other prompts")
        self._order = DataOrder(settings.seed, usable, data.shards)
        self._trained = {
            name: value
            for name, value in drafter.parameters.items()
            if not any(part in name for part in settings.frozen)
        }
        for name, value in drafter.parameters.items():
            value.requires_grad_(name in self._trained)
        self._optimisers = Optimisers(self._trained, settings.optimiser)
        block = drafter.config.block
        self._lengths = settings.lengths or (block,)
        _check_lengths(self._lengths, drafter)
        _check_head(settings, drafter)
        self._rarity = rarity_of(self._lengths, block)
        self._frequent = frequent_tokens(data, settings.frequent, len(drafter.head))

    def update(self) -> Counts:
        """One update."""
        chosen = [self._draw(number) for number in self._order.take(self.settings.answers)]
        columns = self._head(chosen)
        blocks = sum(len(one.blocks.anchors) for one in chosen)
        mine = self._processes.share(chosen, Lesson.cost)
        with matmul_precision(self.settings.precision):
            parts = [self._learn(lessons, columns, blocks) for lessons in learned_together(mine)]
        self._processes.add([one.grad for one in self._trained.values() if one.grad is not None])
        self.gradient = self._optimisers.step(self.schedule.factor(self.step))
        self.step += 1
        self.anchors += blocks
        return Counts.of(parts, self.drafter.config.block, self._processes)

    def standing(self) -> Standing:
        """Where the run stands."""
        progress = {
            "step": self.step,
            "anchors": self.anchors,
            "order": self._order.state(),
            "must_match": self._must_match(),
        }
        extra = {"frequent": self._frequent}
        return Standing(progress, self.drafter.parameters, self._optimisers.state(), extra)

    def resume(self, standing: Standing) -> None:
        """Goes on from there.

        Raises:
            UserError: it was a run with another shape, mask or target.
        """
        before = cast(Mapping[str, object], standing.progress["must_match"])
        for name, value in self._must_match().items():
            if before.get(name) != value:
                raise UserError(
                    f"the run was started with {name} {before.get(name)}, now it is {value}",
                    "resume it as it was, or start another run",
                )
        with torch.no_grad():
            for name, value in self.drafter.parameters.items():
                value.copy_(standing.parameters[name])
        self._optimisers.load(standing.optimiser)
        self._frequent = standing.extra["frequent"]
        self._order.load(cast(Mapping[str, object], standing.progress["order"]))
        self.step = cast(int, standing.progress["step"])
        self.anchors = cast(int, standing.progress["anchors"])

    def _learn(self, lessons: Sequence[Lesson], columns: Columns, blocks: int) -> Losses:
        """Adds gradients of lessons to the parameters, over all the blocks of the update."""
        rarity = self._rarity[: lessons[0].blocks.labels.shape[1]]
        inject = self.step < self.settings.inject
        part = losses(self.drafter, lessons, columns, self.settings.objective, inject, rarity)
        (part.total / blocks).backward()  # type: ignore[no-untyped-call]
        return part

    def _draw(self, number: int) -> Lesson:
        data, drafter = self._data, self.drafter
        heard = data.features(number, drafter.config.taps)
        assert heard is not None, "all answers have the taps"
        answer = Answer(data.about(number), *data.text(number), heard)
        generator = _generator(self.settings.seed, self.step, number)
        places = draw_anchors(answer, self.settings.anchors, generator)
        length = self._lengths[int(torch.randint(len(self._lengths), (), generator=generator))]
        last = data.features(number, (drafter.tables.last,))
        return Lesson(answer, blocks_at(answer, places, length), last)

    def _head(self, chosen: list[Lesson]) -> Columns:
        head, multiplier = self.drafter.head, self.drafter.config.multiplier
        if not self.settings.frequent:
            return whole_head(head, multiplier)
        labels = torch.cat([one.blocks.labels.reshape(-1) for one in chosen])
        generator = _generator(self.settings.seed, self.step, -1)
        drawn = self.settings.drawn
        return restricted_head(head, self._frequent, labels, drawn, generator, multiplier)

    def _must_match(self) -> dict[str, object]:
        config = self.drafter.config
        return {
            "the mask": config.mask,
            "the block": config.block,
            "the taps": list(config.taps),
            "the tensors": {k: list(v.shape) for k, v in sorted(self.drafter.parameters.items())},
            "the target": self._data.facts.target,
            "the optimiser": self.settings.optimiser.method,
        }


def learned_together(lessons: Sequence[Lesson]) -> list[list[Lesson]]:
    """Lessons of one pass each: equally long blocks, all with the last layer's outputs or none.

    Matrices then meet many rows at a time; more than some thousands would only take more memory.
    """
    groups: dict[tuple[int, bool], list[list[Lesson]]] = {}
    for lesson in lessons:
        kind = lesson.blocks.labels.shape[1], lesson.last is not None
        passes = groups.setdefault(kind, [[]])
        if passes[-1] and sum(map(Lesson.cost, passes[-1])) + lesson.cost() > _ROWS_OF_A_PASS:
            passes.append([])
        passes[-1].append(lesson)
    return [one for kind in sorted(groups) for one in groups[kind]]


def usable_answers(data: AnswerSet) -> list[int]:
    """Answers that have a place for an anchor and, if they were kept whole, do not loop."""
    return [
        number
        for number in range(len(data))
        if not (data.facts.whole and data.about(number).loop is not None)
    ]


def frequent_tokens(data: AnswerSet, count: int, vocabulary: int) -> Tensor:
    """The most frequent of the target's own tokens, ascending."""
    counts = torch.zeros(vocabulary, dtype=torch.long)
    for number in range(len(data)):
        tokens, learned = data.text(number)
        counts += torch.bincount(tokens[learned], minlength=vocabulary)
    return counts.topk(min(count, vocabulary)).indices.sort().values


def _check_lengths(lengths: tuple[int, ...], drafter: LearningDrafter) -> None:
    block = drafter.config.block
    if min(lengths) < 2:
        raise UserError(
            f"blocks of {list(lengths)} rows", "the shortest has two: its anchor and one token"
        )
    if max(lengths) != block:
        raise UserError(f"blocks of {list(lengths)} rows: the longest must be the block of {block}")
    if len(set(lengths)) > 1 and not all(drafter.config.causal):
        raise UserError(
            "blocks of several lengths are for causal drafters", "train it with whole blocks"
        )


def _check_head(settings: FitSettings, drafter: LearningDrafter) -> None:
    columns = settings.frequent + settings.drawn if settings.frequent else len(drafter.head)
    if drafter.selector is not None and columns < drafter.candidates:
        raise UserError(
            f"a head of {columns} tokens has no {drafter.candidates} candidates",
            "let it have more, or the selector fewer",
        )


def _generator(seed: int, step: int, number: int) -> torch.Generator:
    """Draws for one answer in one update."""
    text = f"{seed} {step} {number}".encode()
    drawn = int.from_bytes(hashlib.sha256(text).digest()[:7], "big")
    return torch.Generator().manual_seed(drawn)
