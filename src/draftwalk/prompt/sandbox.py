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

from jinja2 import nodes, pass_context
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from draftwalk.prompt.budget import MOST_BITS, BudgetContext, LimitError, budget_of
from draftwalk.prompt.template_filters import (
    Filter,
    check_format,
    filters,
    join_texts,
    originals,
    replace_text,
    text_of,
)
