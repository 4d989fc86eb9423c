"""Jinja for templates that nobody has vetted: no reach for attributes, and a budget.

Jinja's sandbox keeps a template away from Python. It does not keep it from looping for ever or
from filling the memory, so every construct that repeats or multiplies asks the budget first:

- the parsed template is rewritten: a step is counted in every loop and macro, and whatever makes a
  container, compares or concatenates is passed through a check; constant text is printed like any
  other value, so that it counts too;
- operators and calls are intercepted, as Jinja's sandbox provides for it;
- filters are our own list.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from draftwalk.prompt.budget import MOST_BITS, Budget, BudgetContext, LimitError, budget_of
from draftwalk.prompt.template_filters import (
    Filter,
    check_format,
    join_texts,
    replace_text,
    text_of,
)

# Methods that a template may call on its values. None changes the value, and none multiplies it
# but those that `_string_method` looks after.
STRING_METHODS = frozenset(
    {
        *("capitalize", "casefold", "center", "count", "endswith", "find", "format", "index"),
        *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
        *("isnumeric", "isprintable", "isspace", "istitle", "isupper", "join", "ljust", "lower"),
        *("lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex"),
        *("rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith"),
        *("strip", "swapcase", "title", "upper", "zfill"),
    }
)
DICT_METHODS = frozenset({"copy", "get", "items", "keys", "values"})
LIST_METHODS = frozenset({"copy", "count", "index"})
_SCOPES = ("_loop_vars", "_block_vars")  # what Jinja adds to calls, for functions that want it
_PADDING = ("center", "ljust", "rjust", "zfill")


class QuietNamespace(Namespace):
    """Jinja's namespace, printed without its values, whose size nobody has asked for."""

    def __repr__(self) -> str:
        return "<Namespace>"


class GenerationTag(Extension):
    """`{% generation %}` marks what a model is trained on; for a prompt it is only a scope."""

    tags = {"generation"}  # noqa: RUF012  # the base class declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        """Reads on to the end tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment that chat templates run in.

    Args:
        filters: every filter there is.
        functions: further names a template may use.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    context_class = BudgetContext

    def __init__(
        self, filters: Mapping[str, Filter], functions: Mapping[str, Callable[..., object]]
    ) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # constants are not computed while compiling, where nothing is counted
            finalize=_printed,
            extensions=[LoopControlExtension, GenerationTag],
        )
        self.filters = dict(filters)
        self.globals = {
            **{name: self.globals[name] for name in ("range", "dict", "cycler", "joiner")},
            "namespace": QuietNamespace,
            **functions,
        }

    # Called by what `rewrite.py` puts into a template; arguments are there already, and the call
    # itself has counted a step.

    @staticmethod
    @pass_context
    def counted(_context: Context, value: object = None) -> object:
        """A value whose making was worth a step."""
        return value

    @staticmethod
    @pass_context
    def weighed(context: Context, value: object) -> object:
        """A container that has just been made."""
        budget_of(context).weigh(value)
        return value

    @staticmethod
    @pass_context
    def concatenated(context: Context, *parts: object) -> str:
        """The operator ~."""
        budget = budget_of(context)
        return join_texts(budget, "", [text_of(budget, part) for part in parts])

    def call(self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Every call of a template."""
        budget = budget_of(__context)
        budget.step()
        if __obj is self.counted or __obj is self.weighed:
            return __obj(__context, *args)
        if isinstance(__obj, types.BuiltinMethodType) and isinstance(__obj.__self__, str):
            for scope in _SCOPES:
                kwargs.pop(scope, None)
            return _string_method(budget, __obj.__self__, __obj.__name__, args, kwargs)
        result = super().call(__context, __obj, *args, **kwargs)
        budget.weigh(result)
        return result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Every arithmetic operator of a template."""
        budget = budget_of(context)
        budget.step()
        if operator == "%" and isinstance(left, str):
            check_format(budget, left, right)
        elif operator == "*":
            _check_product(budget, left, right)
        elif operator == "**":
            _check_bits(_bits(left) * abs(right) if isinstance(right, int) else _bits(left))
        elif operator == "+" and isinstance(left, str) and isinstance(right, str):
            budget.room(len(left) + len(right))
        result = super().call_binop(context, operator, left, right)
        budget.weigh(result)
        return result

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may see this attribute."""
        for kind, methods in ((str, STRING_METHODS), (dict, DICT_METHODS), (list, LIST_METHODS)):
            if isinstance(obj, kind):
                return attr in methods
        return not isinstance(obj, int | float | tuple) and super().is_safe_attribute(
            obj, attr, value
        )

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """An attribute that a template may not see; where it is Python's own, an error at once."""
        if attribute.startswith("_"):
            raise SecurityError(f"it reaches for the attribute {attribute!r}")
        reason = f"it uses the attribute {attribute!r} of type {type(obj).__name__}"
        return self.undefined(reason, obj=obj, name=attribute, exc=SecurityError)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The method `format` of a string, its widths checked."""
        formatting = super().wrap_str_format(value)
        if formatting is None:
            return None
        pattern: str = value.__self__

        @pass_context
        def checked(context: Context, *args: object, **kwargs: object) -> str:
            check_format(budget_of(context), pattern, [args, kwargs], braces=True)
            return formatting(*args, **kwargs)

        return checked


@pass_context
def _printed(context: Context, value: object) -> object:
    """What `{{ }}` prints: sized, and turned into text where it is none."""
    budget = budget_of(context)
    text = text_of(budget, value)
    budget.printed(len(text))
    return text


def _string_method(
    budget: Budget, text: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> object:
    """Calls a method of a string; `format` only ever comes here by evading its wrapper."""
    if name not in STRING_METHODS or name == "format":
        raise SecurityError(f"it calls the string method {name!r}")
    if name == "join" and len(args) == 1:
        return join_texts(budget, text, list(args[0]))
    if name == "replace" and len(args) in (2, 3) and not kwargs:
        return replace_text(budget, text, *args)
    if name in _PADDING and args and isinstance(args[0], int):
        budget.room(args[0])
    method: Callable[..., object] = getattr(text, name)
    result = method(*args, **kwargs)
    budget.weigh(result)
    return result


def _check_product(budget: Budget, left: object, right: object) -> None:
    for value, count in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(count, int):
            budget.room(budget.weigh(value) * max(0, count))
    _check_bits(_bits(left) + _bits(right))


def _check_bits(bits: int) -> None:
    if bits > MOST_BITS:
        raise LimitError(f"it makes a number of over {MOST_BITS} bits")


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 0
