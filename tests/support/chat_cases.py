"""Chat templates and conversations for comparing with transformers, written for the purpose."""

from __future__ import annotations

from typing import TypedDict


class Case(TypedDict):
    """What a template is given."""

    messages: list[dict[str, object]]
    tools: list[dict[str, object]] | None
    template_kwargs: dict[str, object]
    add_generation_prompt: bool


TEMPLATES = {
    "turns": """
{%- for message in messages %}
    {{- '<|' ~ message.role ~ '|>' ~ '\\n' + message['content'] | trim + eos_token ~ "\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
<|assistant|>
{% endif %}
""",
    "generation": """{{ bos_token }}
{% for message in messages %}
  {% if message.role == 'assistant' %}
    {% generation %}
[{{ message.content }}]
    {% endgeneration %}
  {% elif message.role == 'stop' %}
    {% break %}
  {% elif message.role == 'skip' %}
    {% continue %}
  {% else %}
{{ loop.index }}/{{ loop.length }}{{ ' last' if loop.last }}: {{ message.content }}
  {% endif %}
{% endfor %}
""",
    "thinking": """
{%- set ns = namespace(last=-1, system='') %}
{%- for message in messages %}
  {%- if message.role == 'system' %}{% set ns.system = ns.system + message.content %}{% endif %}
  {%- if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{{- ns.system }}
{%- for message in messages if message.role != 'system' %}
  {%- set content = message.content %}
  {%- if '</think>' in content and loop.index0 < ns.last %}
    {%- set content = (content.split('</think>') | last).lstrip('\\n') %}
  {%- endif %}
  {{- '\\n' ~ message.role.upper() ~ ': ' ~ content }}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '\\nASSISTANT: ' }}
  {%- if enable_thinking is defined and enable_thinking is false %}
    {{- '<think></think>' }}
  {%- endif %}
{%- endif %}
""",
    "tools": """
{%- macro describe(tool, depth=1) %}
{{ '  ' * depth }}{{ tool.function.name }}: {{ tool | tojson }}
{%- for name, facts in tool.function.parameters.properties.items() %}
{{ '  ' * depth }}- {{ name }} ({{ facts.type | default('any') }}){{ ',' if not loop.last }}
{%- endfor %}
{%- endmacro %}
{%- if tools %}Tools:{% for tool in tools %}{{ describe(tool) }}{% endfor %}{% endif %}
{%- for message in messages %}
  {%- if message.tool_calls %}
    {%- for call in message.tool_calls %}
{{ call.function.arguments | tojson(indent=2) }}{{ call | tojson(separators=(',', ':')) }}
    {%- endfor %}
  {%- elif message.role == 'tool' %}
{{ message.content | tojson(ensure_ascii=true) }}
  {%- elif message.content is string %}
{{ message.content }}
  {%- else %}{{ raise_exception('no content in ' + message.role) }}
  {%- endif %}
{%- endfor %}
""",
}

_TALK: list[dict[str, object]] = [
    {"role": "system", "content": "Be brief; naïve <b> & 'quotes'."},
    {"role": "user", "content": "  What is <|im_end|>?\n"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nA {{ marker }} 🦙."},
    {"role": "user", "content": ""},
]
_SHORT: list[dict[str, object]] = [{"role": "user", "content": "hi"}]
_BROKEN_OFF: list[dict[str, object]] = [
    *_SHORT,
    {"role": "skip", "content": "x"},
    *_TALK,
    {"role": "stop", "content": "y"},
    *_SHORT,
]
_CALL: list[dict[str, object]] = [
    *_SHORT,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": {"city": "Zürich", "n": 2}}}
        ],
    },
    {"role": "tool", "name": "f", "content": '{"t": "18 °C"}'},
]
_TOOLS: list[dict[str, object]] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": 'the "weather" <now> & é',
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["a", "b"]}, "n": {}},
                "required": ["city"],
            },
        },
    }
]


def cases() -> list[Case]:
    """Every conversation with and without what may go with it."""
    return [
        {
            "messages": messages,
            "tools": tools,
            "template_kwargs": kwargs,
            "add_generation_prompt": prompt,
        }
        for messages in (_TALK, _SHORT, _BROKEN_OFF, _CALL)
        for tools in (None, _TOOLS)
        for kwargs, prompt in (({}, True), ({"enable_thinking": False}, True), ({}, False))
    ]
