"""The same prompt with the drafter and without: are the texts equal, and is it faster?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import median

from draftwalk.cli.answer import Asked, answer_one
from draftwalk.cli.report import windows_text
from draftwalk.cli.streams import say, write
from draftwalk.engine import Engine
from draftwalk.errors import UserError
from draftwalk.result import Result
from draftwalk.settings import Rule

ROUNDS = 3
_WARM_UP = 8  # tokens
_WHY: Mapping[Rule, str] = {
    "coupled": "on the torch back end a near-tie can fall either way; --dtype float64 has none",
    "rejection": "as this rule allows: the distribution is the target's, draws depend on drafts",
}


def compare(engine: Engine, ids: Sequence[int], asked: Asked) -> bool:
    """Answers alternately with and without the drafter, and prints what came out.

    Before that, both answer a few tokens that are not counted. Returns whether no answer failed;
    unequal texts are told, not failed: in fp32 a near-tie may fall either way.

    Raises:
        UserError: nothing would be drafted.
    """
    if engine.drafter.block == 1 or asked.window.n_max == 0:
        raise UserError("nothing is drafted, so there is nothing to compare", "give a drafter: -md")
    plain = engine.plain()
    warm = replace(asked, limits=replace(asked.limits, max_tokens=_WARM_UP))
    for one in (engine, plain):
        answer_one(one, ids, warm)
    first = answer_one(engine, ids, asked, lambda step: write(step.text))
    write("\n")
    if first.seed is not None:
        asked = replace(asked, sampling=replace(asked.sampling, seed=first.seed))
    drafted, undrafted = [first], [answer_one(plain, ids, asked)]
    for _ in range(ROUNDS - 1):
        drafted.append(answer_one(engine, ids, asked))
        undrafted.append(answer_one(plain, ids, asked))
    for line in _findings(engine, drafted, undrafted, asked.sampling.rule):
        write(f"{line}\n")
    failed = [result.error for result in (*drafted, *undrafted) if result.error is not None]
    for error in failed[:1]:
        say(f"error: {error}")
    return not failed


def _findings(
    engine: Engine, drafted: list[Result], undrafted: list[Result], rule: Rule
) -> list[str]:
    with_drafter, without = _speed(drafted), _speed(undrafted)
    timings = drafted[0].timings
    target, drafter = engine.checkpoint.path.name, engine.drafter_path
    ratio = f"{with_drafter / without:.2f}" if without else "unknown"
    return [
        "",
        f"target              {target}",
        f"drafter             {'none' if drafter is None else drafter.name}",
        f"tokens              {len(drafted[0].tokens)}",
        f"acceptance length   {timings.acceptance_length:.2f} (bonus token included, over "
        f"{timings.verify_n} verified drafts)",
        f"window              {windows_text([timings]) or 'nothing was drafted'}",
        f"with drafter        {with_drafter:.1f} tokens/s",
        f"plain decoding      {without:.1f} tokens/s",
        f"ratio               {ratio}",
        f"texts               {agreement([*undrafted, *drafted], rule)}",
        f"(medians of {ROUNDS} alternating runs after a warm-up; the prompt's time is not in them)",
    ]


def _speed(results: list[Result]) -> float:
    return median(result.timings.predicted_per_second for result in results)


def agreement(results: Sequence[Result], rule: Rule = "coupled") -> str:
    """Whether all answers have the same tokens, and if not, where the first two part."""
    reference = results[0].tokens
    for result in results[1:]:
        if result.tokens != reference:
            pairs = enumerate(zip_longest(result.tokens, reference), 1)
            place = next(n for n, (ours, theirs) in pairs if ours != theirs)
            return f"DIFFERENT from token {place} on ({_WHY[rule]})"
    return f"equal, token for token, in all {len(results)} runs"
