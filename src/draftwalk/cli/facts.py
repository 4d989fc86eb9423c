"""Facts about a file: a nested table, printed for people or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from draftwalk.weights import RawTensor

Facts = Mapping[str, "Fact"]
Fact = str | int | float | bool | None | Facts

_NAME_WIDTH = 26
_MOST_ON_A_LINE = 4


def lines(facts: Facts, indent: int = 0) -> list[str]:
    """The table for people, one fact a line; a small table of plain values is one line too."""
    found = []
    for name, fact in facts.items():
        head = f"{' ' * indent}{_title(name):<{_NAME_WIDTH - indent}} "
        if not isinstance(fact, Mapping):
            found.append(head + _shown(name, fact))
        elif _is_small(fact):
            parts = (f"{_title(key)} {_shown(key, value)}" for key, value in fact.items())
            found.append(head + ", ".join(parts))
        else:
            found += [head.rstrip(), *lines(fact, indent + 2)]
    return found


def _is_small(facts: Facts) -> bool:
    plain = not any(isinstance(value, Mapping) for value in facts.values())
    return plain and len(facts) <= _MOST_ON_A_LINE


def _title(name: str) -> str:
    """A fact's name in words; names of formats and of tokens are not ours to change."""
    return name.removesuffix("_bytes").replace("_", " ") if name.islower() else name


def stored(tensors: Iterable[RawTensor]) -> Facts:
    """How tensors are stored, in all and by format."""
    groups: dict[str, list[RawTensor]] = {}
    for raw in tensors:
        groups.setdefault(raw.format.NAME, []).append(raw)
    sums = {name: _sum(group) for name, group in groups.items()}
    every = [raw for group in groups.values() for raw in group]
    return {"all": _sum(every), **dict(sorted(sums.items()))}


def _sum(tensors: list[RawTensor]) -> Facts:
    values, size = sum(raw.size for raw in tensors), sum(raw.bytes for raw in tensors)
    return {
        "tensors": len(tensors),
        "values": values,
        "stored_bytes": size,
        "bytes_per_weight": round(size / values, 4),
    }


def _shown(name: str, fact: Fact) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if fact is None:
        return "none"
    if isinstance(fact, int):
        return _size(fact) if name.endswith("_bytes") else f"{fact:,}"
    return f"{fact:g}" if isinstance(fact, float) else str(fact)


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"
