"""The third stage: what a drafter is worth on answers it has not seen, and what limits it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.vocabulary import DraftVocabulary
from draftwalk.train.measurement import (
    Acceptance,
    Errors,
    Measurement,
    Offset,
    Worth,
)
from draftwalk.train.shards import Answer, DataFacts
from draftwalk.train.visits import Flags, Numbers, Visits, Walk, leading
from draftwalk.train.walk import PARALLEL, Report, walk
from draftwalk.window.fit import Outcome

# Places in a text up to which steps are counted together.
POSITIONS = (512, 2048, 8192)


def measure(
    drafter: BlockDrafter,
    answers: Iterable[Answer],
    data: DataFacts,
    windows: Sequence[int] = (),
    sampled: bool = False,
    parallel: int = PARALLEL,
    report: Report | None = None,
) -> Measurement:
    """Measures a drafter by walking through answers.

    The lengths are those that the engine would reach, under the coupled rule if answers were
    sampled, but for the rounding of stored features to bfloat16: see `draftwalk.train.walk`.

    Args:
        drafter: with its whole head, or its own vocabulary.
        answers: kept whole, if loops are to be measured too.
        data: what they have in common.
        windows: most tokens verified in a step; all by default. Fewer of them take less time.
        sampled: take the sampled answers, not the greedy ones.
        parallel: answers walked through at a time.
        report: told after every pass how many answers are done and how many drafts were made.

    Raises:
        UserError: there is nothing to measure, or the answers lack what the drafter listens to.
    """
    chosen = (answer for answer in answers if answer.facts.greedy != sampled)
    walked = walk(drafter, chosen, data, windows, parallel, report)
    return assess(walked, drafter.vocabulary, data.temperature if sampled else 0.0)


def assess(walked: Walk, vocabulary: DraftVocabulary | None, temperature: float) -> Measurement:
    """What a walk says of its drafter.

    Args:
        walked: through answers of one temperature.
        vocabulary: the drafter's own, if it has one.
        temperature: of the answers.
    """
    looping = np.array([facts.loop is not None for facts in walked.facts])
    full = walked.at(walked.windows[-1])
    return Measurement(
        block=full.drafted.shape[1] + 1,
        candidates=walked.candidates,
        temperature=temperature,
        answers=len(walked.facts),
        tokens=int(walked.tokens.sum()),
        steps=len(full),
        loop_free=_worth(walked, ~looping, vocabulary),
        looping=_worth(walked, looping, vocabulary),
        outcomes=tuple(_outcomes(full, temperature)),
    )


def _worth(walked: Walk, chosen: Flags, vocabulary: DraftVocabulary | None) -> Worth | None:
    """On some of the answers, which are flagged."""
    steps = {window: walked.at(window) for window in walked.windows}
    steps = {window: visits.where(chosen[visits.answers]) for window, visits in steps.items()}
    full = steps[walked.windows[-1]]
    if not len(full):
        return None
    sources = np.array([facts.source for facts in walked.facts])
    suites = {
        suite: {w: one.where(sources[one.answers] == suite) for w, one in steps.items()}
        for suite in sorted(set(sources[full.answers].tolist()))
    }
    return Worth(
        answers=int(chosen.sum()),
        tokens=int(walked.tokens[chosen].sum()),
        windows=_by_window(steps),
        suites={suite: _by_window(some) for suite, some in suites.items()},
        positions=dict(_by_position(full)),
        offsets=tuple(_offsets(full, walked.candidates)),
        errors=_errors(full, walked.candidates, vocabulary),
        unary_length=1 + float(leading(full.judged & (full.ranks == 0)).mean()),
        oracle_length=1 + float(leading(full.judged & (full.ranks < walked.candidates)).mean()),
    )


def _by_window(steps: dict[int, Visits]) -> dict[int, Acceptance]:
    return {window: acceptance(visits, window) for window, visits in steps.items()}


def acceptance(steps: Visits, window: int) -> Acceptance:
    """Of at least one step at a window."""
    accepted = np.minimum(steps.accepted, window)
    _, number = np.unique(steps.answers, return_inverse=True)
    count = np.bincount(number)
    return Acceptance(
        answers=len(count),
        steps=len(steps),
        drafted=int(np.minimum(steps.verified, window).sum()),
        accepted=int(accepted.sum()),
        length=1 + float(accepted.mean()),
        length_per_answer=1 + float((np.bincount(number, accepted) / count).mean()),
    )


def _by_position(full: Visits) -> Iterator[tuple[str, Acceptance]]:
    window = full.drafted.shape[1]
    bins = np.digitize(full.places, POSITIONS)
    names = [f"up to {end}" for end in POSITIONS] + [f"after {POSITIONS[-1]}"]
    for n, name in enumerate(names):
        if (bins == n).any():
            yield name, acceptance(full.where(bins == n), window)


def _offsets(full: Visits, candidates: int) -> Iterator[Offset]:
    for n in range(full.drafted.shape[1]):
        at_risk = full.judged[:, n] & (full.accepted >= n)
        stands = at_risk & (full.accepted > n)
        covered = at_risk & (full.ranks[:, n] < candidates)
        yield Offset(
            offset=n + 1,
            steps=len(full),
            at_risk=int(at_risk.sum()),
            right=int((at_risk & (full.ranks[:, n] == 0)).sum()),
            covered=int(covered.sum()),
            selected=int((covered & stands).sum()),
            accepted=int(stands.sum()),
        )


def _errors(full: Visits, candidates: int, vocabulary: DraftVocabulary | None) -> Errors:
    """Looks at the first token of each draft that does not stand."""
    failed = np.flatnonzero(full.accepted < full.judged.sum(1))
    at = full.accepted[failed]
    ranks, right = full.ranks[failed, at], full.truth[failed, at]
    uncovered = ranks == candidates
    return Errors(
        none=len(full) - len(failed),
        walk=int((ranks == 0).sum()),
        unary=int(((ranks > 0) & ~uncovered).sum()),
        coverage=int(uncovered.sum()),
        vocabulary=_outside(right[uncovered], vocabulary),
    )


def _outside(tokens: Numbers, vocabulary: DraftVocabulary | None) -> int:
    if vocabulary is None:
        return 0
    return int((~np.isin(tokens, vocabulary.ids.cpu().numpy())).sum())


def _outcomes(full: Visits, temperature: float) -> Iterator[Outcome]:
    places = np.arange(full.drafted.shape[1])
    at_risk = full.judged & (full.accepted[:, None] >= places)
    for step, place in zip(*np.nonzero(at_risk), strict=True):
        sure, stands = float(full.confidence[step, place]), bool(full.accepted[step] > place)
        yield Outcome(int(place), sure, temperature, stands)
