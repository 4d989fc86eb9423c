"""The filters of chat templates: Jinja's own where their result is no larger than what goes in.

Filters that multiply (padding, replacing, joining) are written here, because their size has to be
asked for before they make anything. Filters that no chat template needs are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Sequence,
    ValuesView,
)
from types import NoneType

from jinja2 import Environment, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context, Undefined

from draftwalk.prompt.budget import ENTRY, Budget, LimitError, budget_of

ORDINARY = (
    *("abs", "attr", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first"),
    *("float", "groupby", "int", "items", "last", "length", "list", "lower", "map", "max", "min"),
    *("reject", "rejectattr", "reverse", "safe", "select", "selectattr", "sort", "title", "trim"),
    *("truncate", "unique", "upper", "urlencode", "wordcount"),
)
# A width or precision of over four digits, or one that comes from an argument.
_WIDE_PERCENT = re.compile(r"%(\([^)]*\))?[-#0 +]*(\*|\d{5}|\d*\.(\*|\d{5}))")
_WIDE_BRACES = re.compile(r"\{[^{}]*(\{|:[^{}]*\d{5})")
_MOST_INDENT = 64
_PRINTABLE = (int, float, list, tuple, dict, KeysView, ValuesView, ItemsView, Undefined, NoneType)

Filter = Callable[..., object]


def filters(plain: Environment) -> dict[str, Filter]:
    """All filters by name.

    Args:
        plain: an environment that has Jinja's own filters, in the same sandbox.
    """
    ordinary = {name: _within_limits(plain, name) for name in ORDINARY}
    own: dict[str, Filter] = {
        "format": format_percent,
        "indent": indent,
        "join": join,
        "replace": replace,
        "round": round_number,
        "string": string,
        "sum": total,
        "tojson": to_json,
    }
    return ordinary | own


def originals() -> dict[str, Filter]:
    """Jinja's own filters of the names in `ORDINARY`."""
    return {name: FILTERS[name] for name in ORDINARY}


def _within_limits(plain: Environment, name: str) -> Filter:
    """Jinja's filter, its result weighed. Lazy results are made here, but stay iterators."""

    @pass_context
    def limited(context: Context, value: object, *args: object, **kwargs: object) -> object:
        budget = budget_of(context)
        budget.step()
        result = plain.call_filter(
            name, value, args, kwargs, context=context, eval_ctx=context.eval_ctx
        )
        if isinstance(result, Iterator):
            return iter(_collected(budget, result))
        budget.weigh(result)
        return result

    return limited


def _collected(budget: Budget, items: Iterable[object]) -> list[object]:
    """The items as a list that has room."""
    collected, weight = [], 0
    for item in items:
        budget.step()
        weight += ENTRY + budget.weigh(item)
        budget.room(weight)
        collected.append(item)
    return collected


def text_of(budget: Budget, value: object) -> str:
    """A value as text, if there is room for it; of other objects than data only what they are."""
    if isinstance(value, str):
        return value
    if not isinstance(value, _PRINTABLE):
        return f"<{type(value).__name__}>"
    budget.step()
    budget.room(2 * budget.weigh(value))
    return str(value)


def check_format(budget: Budget, pattern: str, args: object, braces: bool = False) -> None:
    """Refuses a format whose result could be much larger than its parts."""
    if braces:
        pattern = pattern.replace("{{", "").replace("}}", "")
    if (_WIDE_BRACES if braces else _WIDE_PERCENT).search(pattern):
        raise LimitError("it formats a text with a very large width")
    fields = pattern.count("{" if braces else "%")
    budget.room(len(pattern) + fields * (10_000 + budget.weigh(args)))


@pass_context
def join(
    context: Context, value: Iterable[object], d: str = "", attribute: str | int | None = None
) -> str:
    """The items with a text between them."""
    budget = budget_of(context)
    if attribute is not None:
        mapped = context.environment.call_filter(
            "map", value, kwargs={"attribute": attribute}, context=context
        )
        assert isinstance(mapped, Iterable), "map gives an iterator"
        value = mapped
    return join_texts(budget, text_of(budget, d), [text_of(budget, item) for item in value])


def join_texts(budget: Budget, separator: str, texts: Sequence[str]) -> str:
    """`separator.join(texts)`, if there is room for it."""
    budget.room(len(separator) * len(texts) + sum(map(len, texts)))
    return separator.join(texts)


@pass_context
def replace(context: Context, s: object, old: str, new: str, count: int | None = None) -> str:
    """The text with `new` for every `old`, or for the first few."""
    budget = budget_of(context)
    text = text_of(budget, s)
    limit = -1 if count is None else count
    return replace_text(budget, text, text_of(budget, old), text_of(budget, new), limit)


def replace_text(budget: Budget, text: str, old: str, new: str, count: int = -1) -> str:
    """`text.replace(old, new, count)`, if there is room for it."""
    budget.step()
    found = text.count(old)
    if 0 <= count < found:
        found = count
    budget.room(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, count)


@pass_context
def indent(
    context: Context, s: object, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    """The text with its lines moved to the right."""
    budget = budget_of(context)
    lines = (text_of(budget, s) + "\n").splitlines()
    size = sum(map(len, lines)) + len(lines)
    budget.room(size + len(lines) * (len(width) if isinstance(width, str) else width))
    prefix = width if isinstance(width, str) else " " * width
    moved = [prefix + line if line or blank else line for line in lines[1:]]
    return "\n".join([prefix + lines[0] if first else lines[0], *moved])


@pass_context
def format_percent(context: Context, value: str, *args: object, **kwargs: object) -> str:
    """`value % args`, as in Python."""
    if args and kwargs:
        raise TypeError("can't handle positional and keyword arguments at the same time")
    check_format(budget_of(context), value, [args, kwargs])
    return value % (kwargs or args)


@pass_context
def string(context: Context, value: object) -> str:
    """The value as text."""
    return text_of(budget_of(context), value)


@pass_context
def total(
    context: Context,
    iterable: Iterable[object],
    attribute: str | int | None = None,
    start: float = 0,
) -> float:
    """The sum of numbers."""
    if attribute is not None:
        mapped = context.environment.call_filter(
            "map", iterable, kwargs={"attribute": attribute}, context=context
        )
        assert isinstance(mapped, Iterable), "map gives an iterator"
        iterable = mapped
    numbers = [start, *iterable]
    if not all(isinstance(number, int | float) for number in numbers):
        raise TypeError("only numbers can be summed")
    return sum(number for number in numbers if isinstance(number, int | float))


def round_number(value: float, precision: int = 0, method: str = "common") -> float:
    """The number with fewer decimals."""
    if method not in ("common", "ceil", "floor") or not -100 <= precision <= 100:
        raise TypeError("method must be common, ceil or floor, and precision at most 100")
    if method == "common":
        return round(value, precision)
    scale = 10.0**precision
    whole = value * scale // 1 if method == "floor" else -(-value * scale // 1)
    return float(whole / scale)


@pass_context
def to_json(
    context: Context,
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Sequence[str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The value as JSON, as transformers writes it: neither ASCII nor HTML is escaped."""
    budget = budget_of(context)
    budget.weigh(value)
    if indent is not None and not 0 <= indent <= _MOST_INDENT:
        raise LimitError(f"it indents JSON by more than {_MOST_INDENT}")
    marks = None if separators is None else (str(separators[0]), str(separators[1]))
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=marks, sort_keys=sort_keys
    )
    pieces, size = [], 0
    for piece in encoder.iterencode(value):
        size += len(piece)
        budget.room(size)
        pieces.append(piece)
    return "".join(pieces)
