"""Templates that hang, grow or reach out are stopped soon, with little memory, in one line."""

from __future__ import annotations

import resource
import threading
import time

import pytest

from draftwalk.errors import PromptError
from draftwalk.prompt import ChatTemplate, Message
from draftwalk.prompt.budget import ENTRY, Budget, LimitError

HI = [Message("user", "hi")]
GROW = "{% set ns = namespace(x=X) %}{% for i in range(100) %}{% set ns.x = Y %}{% endfor %}Z"
MOST_SECONDS = 2.0  # of processor time
MOST_KIB = 64 << 10


def growing(start: str, step: str, end: str = "") -> str:
    return GROW.replace("X", start).replace("Y", step).replace("Z", end)


def stopped(source: str) -> str:
    """The error, after looking at time, memory and threads."""
    threads = threading.active_count()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.thread_time()
    with pytest.raises(PromptError, match="the chat template") as caught:
        ChatTemplate(source).render(HI)
    seconds = time.thread_time() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert seconds < MOST_SECONDS
    assert grown < MOST_KIB
    assert threading.active_count() == threads
    assert "\n" not in str(caught.value)
    return str(caught.value)


LOOP = "{% for i in range(100000) %}"
END = "{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        LOOP + LOOP + LOOP + END + END + END,
        LOOP + LOOP.replace(" %}", " if false %}") + END + END,
        LOOP + "{% set x = range(9000) | list %}" + END,
        LOOP + "{% set x = range(9000) | map('string') | select('in', 'x') %}" + END,
        "{% macro f(n) %}{% if n %}{% set a = f(n-1) %}{% set b = f(n-1) %}{% endif %}"
        "{% endmacro %}{{ f(60) }}",
    ],
)
def test_loops_are_stopped(source: str) -> None:
    assert "it takes over 0.5 s" in stopped(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    ],
)
def test_recursion_is_stopped(source: str) -> None:
    assert "it calls itself too deeply" in stopped(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 10 ** 9 }}",
        "{{ 10 ** 9 * [1] }}",
        "{{ (['x' * 1000] * 1000) * 1000 }}",
        growing("'ab'", "ns.x ~ ns.x"),
        growing("'ab'", "ns.x + ns.x"),
        growing("[1]", "ns.x + ns.x"),
        growing("[1]", "[ns.x, ns.x]"),
        growing("[1]", "{'a': ns.x, 'b': ns.x}", "{{ ns.x }}"),
        growing("(1,)", "(ns.x, ns.x)", "{{ {ns.x: 1} }}"),
        growing("[1]", "dict(a=ns.x, b=ns.x)"),
        growing("'a'", "ns.x | replace('a', 'aa')"),
        growing("'aa'", "ns.x.replace('a', 'aa')"),
        growing("'aa'", "ns.x.join([ns.x, ns.x])"),
        growing("'aa'", "[ns.x, ns.x] | join(ns.x)"),
        growing("'aa'", "'%s%s' | format(ns.x, ns.x)"),
        growing("'aa'", "'%s%s' % (ns.x, ns.x)"),
        growing("'aa'", "'{0}{0}'.format(ns.x)"),
        "{{ 'x'.ljust(10 ** 9) }}",
        "{{ 'x'.zfill(10 ** 9) }}",
        "{{ 'a\nb' | indent(10 ** 9, true) }}",
        "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
        "{{ ','.join(range(9000) | map('string') | map('replace', '1', 'b' * 100000)) }}",
        "{{ ([''] * 9000) | map('default', 'x' * 1000, true) | list }}",
    ],
)
def test_large_values_are_stopped(source: str) -> None:
    assert "it makes a value of over" in stopped(source)


@pytest.mark.parametrize(
    "source",
    [
        LOOP + "z" * 1000 + END,
        LOOP + "{{ 'z' * 1000 }}" + END,
        "{% set y %}" + LOOP + "z" * 1000 + END + "{% endset %}",
        "{% macro f() %}" + LOOP + "z" * 1000 + END + "{% endmacro %}{% set x = f() %}",
        "{% filter upper %}" + LOOP + "z" * 1000 + END + "{% endfilter %}",
    ],
)
def test_large_output_is_stopped(source: str) -> None:
    assert "it prints over" in stopped(source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ range(10 ** 12) | list }}", "Range too big"),
        ("{{ 10 ** (10 ** 10) }}", "a number of over 256 bits"),
        ("{{ (10 ** 70) * (10 ** 70) }}", "a number of over 256 bits"),
        (growing("3", "ns.x * ns.x"), "a number of over 256 bits"),
        ("{{ '%1000000000d' % 1 }}", "a very large width"),
        ("{{ '%*d' | format(1000000000, 1) }}", "a very large width"),
        ("{{ '%.1000000000f' % 1.5 }}", "a very large width"),
        ("{{ '{:1000000000}'.format(1) }}", "a very large width"),
        ("{{ '{:{}}'.format(1, 10 ** 9) }}", "a very large width"),
        ("{{ [1] | tojson(indent=10 ** 9) }}", "indents JSON by more than 64"),
        ("{{ 1.5 | round(10 ** 9, 'floor') }}", "precision at most 100"),
        ("{{ ([[1] * 100] * 100) | sum(start=[]) }}", "only numbers can be summed"),
        ("{{ strftime_now('%1000000000d') }}", "the time in an unusual format"),
        ("x" * 70_000, "has over 65536 characters"),
        ("{{ a.b }}" * 7000, "has over 10000 elements"),
        ("{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}", "is nested too deeply"),
        ("{% if 1 %}" * 900 + "{% endif %}" * 900, "is nested too deeply"),
        ("{% for x in [1] %}" * 60 + "{% endfor %}" * 60, "is nested too deeply"),
    ],
)
def test_other_limits(source: str, message: str) -> None:
    assert message in stopped(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ '' | attr('__class__') }}",
        "{{ [''] | map(attribute='__class__') | list }}",
        "{{ [''] | map(attribute='__class__.__mro__') | list }}",
        "{{ [''] | sort(attribute='__class__') }}",
        "{{ [''] | groupby('__class__') }}",
        "{{ [''] | join(attribute='__class__') }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ '{a.__class__}'.format_map({'a': ''}) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ self.__init__ }}",
        "{{ (messages | map('list')).__next__ }}",
        "{% set ns = namespace() %}{{ ns.__class__ }}",
        "{% macro m() %}{% endmacro %}{{ m._func }}",
        "{% for x in [1] %}{{ loop._iterable }}{% endfor %}",
    ],
)
def test_attributes_of_python_are_out_of_reach(source: str) -> None:
    assert "it reaches for the attribute '_" in stopped(source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ messages.append(1) }}", "uses the attribute 'append' of type list"),
        ("{{ messages[0].clear() }}", "uses the attribute 'clear' of type dict"),
        ("{{ messages[0].update(role='x') }}", "uses the attribute 'update' of type dict"),
        ("{{ 'x'.encode() }}", "uses the attribute 'encode' of type str"),
        ("{{ 'x'.expandtabs(10 ** 9) }}", "uses the attribute 'expandtabs' of type str"),
        ("{{ 'x'.translate({}) }}", "uses the attribute 'translate' of type str"),
        ("{{ (5).to_bytes(10 ** 9, 'big') }}", "uses the attribute 'to_bytes' of type int"),
        ("{{ dict(a=1).fromkeys([1]) }}", "uses the attribute 'fromkeys' of type dict"),
        ("{{ lipsum(n=10 ** 6) }}", "'lipsum' is undefined"),
    ],
)
def test_what_no_template_needs_is_out_of_reach(source: str, message: str) -> None:
    assert message in stopped(source)


def test_what_is_printed_of_other_objects_is_short() -> None:
    source = "{% set ns = namespace(x=['x' * 1000] * 1000) %}{{ ns }}{{ [ns, ns] }}{{ range }}"
    assert len(ChatTemplate(source).render(HI)) < 200
    assert " at 0x" not in ChatTemplate("{{ [1] | map('string') }}").render(HI)


def test_long_conversations_have_room() -> None:
    messages = [Message("user", "word " * 200), Message("assistant", "reply " * 200)] * 2000
    source = (
        "{% macro turn(m) %}<{{ m.role }}>{{ m.content | trim }}{% endmacro %}"
        "{% for m in messages %}{% set text = turn(m) %}{{ text ~ '\\n' }}{% endfor %}"
    )
    text = ChatTemplate(source).render(messages)
    assert text.count("\n") == 4000
    assert len(text) > 4 << 20


def test_shared_parts_weigh_every_time() -> None:
    part = ["x" * 10]
    budget = Budget(1000, 1.0)
    assert budget.weigh([part, part, {"k": part}]) == 9 * ENTRY + 3 * 10 + 1
    for _ in range(8):
        part = [part, part]  # type: ignore[list-item]
    with pytest.raises(LimitError, match="over 1000 characters"):
        budget.weigh(part)
