"""What an answer took: as JSON under llama.cpp's names, or as lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from draftwalk.engine import Engine
from draftwalk.result import Result, Timings, pass_times
from draftwalk.step import FinishReason, Step, StepTimes

Json = dict[str, object]

_ENDED: Mapping[FinishReason, str] = {
    "stop": "ended by a stop",
    "length": "cut at a limit",
    "error": "ended by an error",
}


def models_json(engine: Engine) -> Json:
    """Which models answered."""
    drafter = engine.drafter_path
    return {
        "model": str(engine.checkpoint.path),
        "model_draft": None if drafter is None else str(drafter),
    }


def result_json(result: Result) -> Json:
    """One answer."""
    found: Json = {
        "text": result.text,
        "tokens": list(result.tokens),
        "finish_reason": result.finish_reason,
        "usage": _usage([result]),
        "timings": timings_json(result.timings),
        "seed": result.seed,
        "steps": [_step_json(step) for step in result.steps],
    }
    if result.error is not None:
        found["error"] = str(result.error)
    return found


def batch_json(results: Sequence[Result]) -> Json:
    """All answers in the prompts' order, and what they took together."""
    timings = [result.timings for result in results]
    total_ms = 1e3 * sum(times.total for times in pass_times(results))
    predicted = sum(t.predicted_n for t in timings)
    found: Json = {
        "prompt_n": sum(t.prompt_n for t in timings),
        "predicted_n": predicted,
        "total_ms": total_ms,
        "predicted_per_second": _per_second(predicted, total_ms),
    }
    if any(t.verify_n for t in timings):
        found["draft_n"] = sum(t.draft_n for t in timings)
        found["draft_n_accepted"] = sum(t.draft_n_accepted for t in timings)
    found |= _windows_json(timings)
    return {
        "results": [result_json(result) for result in results],
        "usage": _usage(results),
        "timings": found,
    }


def timings_json(timings: Timings) -> Json:
    """llama.cpp's names; draft counts only where drafts were verified."""
    found: Json = {
        "prompt_n": timings.prompt_n,
        "prompt_ms": timings.prompt_ms,
        "prompt_per_second": _per_second(timings.prompt_n, timings.prompt_ms),
        "predicted_n": timings.predicted_n,
        "predicted_ms": timings.predicted_ms,
        "predicted_per_second": timings.predicted_per_second,
    }
    if timings.verify_n:
        found |= {"draft_n": timings.draft_n, "draft_n_accepted": timings.draft_n_accepted}
    return {**found, **_windows_json([timings])}


def statistics(result: Result) -> str:
    """Lines for people, after one answer."""
    t = result.timings
    lines = [
        f"prompt   {t.prompt_n} tokens in {t.prompt_ms / 1e3:.2f} s "
        f"({_per_second(t.prompt_n, t.prompt_ms):.1f} tokens/s)",
        f"answer   {t.predicted_n} tokens, {_ENDED[result.finish_reason]}; after the first "
        f"{t.predicted_ms / 1e3:.2f} s ({t.predicted_per_second:.1f} tokens/s)",
        *_drafts(t.verify_n, t.draft_n, t.draft_n_accepted),
        *_windows([t]),
        *_shares([step.times for step in result.steps if not step.prompt_rows]),
    ]
    if result.seed is not None:
        lines.append(f"seed     {result.seed}")
    return "\n".join(lines)


def batch_statistics(results: Sequence[Result]) -> str:
    """Lines for people, after many answers; everything pooled over all of them."""
    timings = [result.timings for result in results]
    times = pass_times(results)
    seconds = sum(one.total for one in times)
    predicted = sum(t.predicted_n for t in timings)
    answered = sum(result.error is None for result in results)
    lines = [
        f"answers  {answered} of {len(results)} prompts, {predicted} tokens in "
        f"{seconds:.2f} s, prompts included ({_per_second(predicted, 1e3 * seconds):.1f} tokens/s)",
        *_drafts(
            sum(t.verify_n for t in timings),
            sum(t.draft_n for t in timings),
            sum(t.draft_n_accepted for t in timings),
        ),
        *_windows(timings),
        *_shares(times),
    ]
    return "\n".join(lines)


def _drafts(verified: int, drafted: int, accepted: int) -> list[str]:
    if not verified:
        return []
    return [
        f"drafts   acceptance length {1 + accepted / verified:.2f} (bonus token included, pooled "
        f"over {verified} verified drafts), acceptance rate {100 * accepted / drafted:.1f}% "
        f"of {drafted} drafted"
    ]


def _windows(timings: Sequence[Timings]) -> list[str]:
    text = windows_text(timings)
    return [] if text is None else [f"window   {text}"]


def windows_text(timings: Sequence[Timings]) -> str | None:
    """What was verified of drafts, and how often there was none; `None` if there never was one."""
    found = _windows_json(timings)
    if not found:
        return None
    off = 100 * found["draft_off"]
    mean = found["window_mean"]
    return f"{mean:.2f} tokens verified on average, nothing drafted in {off:.0f}% of steps"


def _windows_json(timings: Sequence[Timings]) -> dict[str, float]:
    """The same as numbers; of answers for which nothing was ever drafted, none."""
    drafted, off = (sum(t.draft_steps_n for t in timings), sum(t.off_n for t in timings))
    if not drafted:
        return {}
    verified = sum(t.draft_n for t in timings)
    return {"window_mean": verified / drafted, "draft_off": off / (drafted + off)}


def _shares(times: Sequence[StepTimes]) -> list[str]:
    total = sum(one.total for one in times)
    if not total:
        return []
    draft = 100 * sum(one.draft for one in times) / total
    verify = 100 * sum(one.verify for one in times) / total
    rest = 100 - draft - verify
    return [f"time     drafting {draft:.0f}%, target's passes {verify:.0f}%, rest {rest:.0f}%"]


def _usage(results: Sequence[Result]) -> Json:
    prompt = sum(result.prompt_tokens for result in results)
    completion = sum(len(result.tokens) for result in results)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _step_json(step: Step) -> Json:
    return {
        "prompt_rows": step.prompt_rows,
        "asked": step.asked,
        "draft": list(step.draft),
        "accepted": step.accepted,
        "tokens": list(step.tokens),
        "draft_ms": 1e3 * step.times.draft,
        "verify_ms": 1e3 * step.times.verify,
        "choose_ms": 1e3 * step.times.choose,
        "commit_ms": 1e3 * step.times.commit,
        "observe_ms": 1e3 * step.times.observe,
    }


def _per_second(count: int, milliseconds: float) -> float:
    return 1e3 * count / milliseconds if milliseconds else 0.0
