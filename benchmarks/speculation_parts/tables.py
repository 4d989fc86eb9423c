"""What a person reads: the document as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from rich.console import Console
from rich.table import Table

from speculation_parts.cycle import PARTS
from speculation_parts.summary import Document

Entry = Mapping[str, object]
Entries = Mapping[str, Entry]


def show(document: Document, console: Console) -> None:
    """Verdict first, then arms, suites, categories, cycles and floors."""
    for line in verdict(document):
        console.print(line, highlight=False)
    console.print(arms_table(entries(document, "arms")))
    for of in ("suites", "samplings", "categories"):
        console.print(groups_table(of, cast(Mapping[str, Entries], document[of])))
    cycles = entries(document, "cycles")
    if cycles:
        console.print(cycle_table(cycles))
    floors = document["floors"]
    assert isinstance(floors, list)
    if floors:
        console.print(floor_table(floors))


def verdict(document: Document) -> list[str]:
    """Whether numbers may be believed."""
    equal = cast(Entry, document["equal"])
    total, counts = equal["texts"], cast(Mapping[str, int], equal["arms"])
    worst = min(counts.values(), default=0)
    lines = [
        f"texts of speculation equal plain text: all {total}, in every arm"
        if equal["all"]
        else f"TEXTS DIFFER: as few as {worst} of {total} equal plain text; speeds mean nothing"
    ]
    drift = cast(Entry, document["drift"])
    if drift:
        lines.append(
            f"plain decoding over itself: {estimate(drift)}"
            + ("" if drift["holds"] else ": 1 is outside, so the machine was not steady")
        )
    for arm, reason in cast(Mapping[str, str], document["failed"]).items():
        lines.append(f"{arm} failed and was left out: {reason}")
    return lines


def arms_table(arms: Entries) -> Table:
    """One line for each arm."""
    table = Table(title="all answers; speeds in tokens per second, of all text together")
    for name in ("arm", "decode", "prompt", "acceptance length", "per request", "tokens/step"):
        table.add_column(name, justify="left" if name == "arm" else "right")
    for name in ("cycle ms", "over plain", "median", "predicted", "of it"):
        table.add_column(name, justify="right")
    for name, arm in arms.items():
        request = cast(Entry, arm.get("acceptance_length_per_request", {}))
        table.add_row(
            name,
            f"{arm['tok_s']:.1f}",
            f"{arm['prompt_tok_s']:.0f}",
            f"{arm['acceptance_length']:.3f}" if request else "",
            f"{request['mean']:.2f} ± {request['sd']:.2f}" if request else "",
            f"{arm['tokens_per_step']:.3f}",
            f"{arm['cycle_ms']:.2f}",
            estimate(arm.get("speed_up")),
            estimate(arm.get("speed_up_median")),
            estimate(arm.get("predicted_speed_up")),
            estimate(arm.get("measured_over_predicted")),
        )
    return table


def groups_table(of: str, groups: Mapping[str, Entries]) -> Table:
    """Speed and acceptance length of every engine in every group."""
    engines = list(dict.fromkeys(engine for found in groups.values() for engine in found))
    table = Table(title=f"{of}: tokens per second (acceptance length)")
    table.add_column("")
    table.add_column("answers", justify="right")
    for engine in engines:
        table.add_column(engine, justify="right")
    for name, found in groups.items():
        cells = [_speed(found[engine]) if engine in found else "" for engine in engines]
        answers = next(iter(found.values()))["answers"]
        table.add_row(name, str(answers), *cells)
    return table


def cycle_table(cycles: Entries) -> Table:
    """Milliseconds by part."""
    table = Table(title="a mean cycle in milliseconds")
    table.add_column("arm")
    for part in (*PARTS, "cycle"):
        table.add_column(part, justify="right")
    for name, parts in cycles.items():
        cells = [f"{parts[part]:.3f}" if part in parts else "" for part in (*PARTS, "cycle")]
        table.add_row(name, *cells)
    return table


def floor_table(floors: list[Entry]) -> Table:
    """What was to be reached."""
    table = Table(title="floors")
    for name in ("ratio", "floor", "found", "reached"):
        table.add_column(name)
    for one in floors:
        table.add_row(
            str(one["name"]), str(one["floor"]), estimate(one), "yes" if one["met"] else "no"
        )
    return table


def estimate(found: object) -> str:
    """A value with its interval."""
    if not isinstance(found, Mapping) or found["value"] is None:
        return ""
    low, high = found["interval"]
    return f"{found['value']:.3f} [{low:.3f}, {high:.3f}]"


def entries(document: Document, name: str) -> Entries:
    """A part of the document that has entries by name."""
    return cast(Entries, document.get(name, {}))


def _speed(figures: Entry) -> str:
    return f"{figures['tok_s']:.1f} ({figures['acceptance_length']:.2f})"
