"""Record what transformers makes of the chat templates and conversations of the tests.

Run in the referee environment, with PYTHONPATH=tests: `python referee/chat_fixtures.py`. It
rewrites `tests/fixtures/chat_templates.json`: per template the text of every case, or null where
the template does not take it.
"""

from __future__ import annotations

import json

from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from fixtures import FIXTURES
from support.chat_cases import TEMPLATES, Case, cases


def main() -> None:
    """Write the fixture."""
    texts = {name: [render(source, case) for case in cases()] for name, source in TEMPLATES.items()}
    path = FIXTURES / "chat_templates.json"
    path.write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")
    print({name: sum(text is not None for text in found) for name, found in texts.items()})


def render(source: str, case: Case) -> str | None:
    """The text by transformers."""
    try:
        rendered, _ = render_jinja_template(
            conversations=[case["messages"]],
            tools=case["tools"],
            chat_template=source,
            add_generation_prompt=case["add_generation_prompt"],
            bos_token="<s>",
            eos_token="</s>",
            **case["template_kwargs"],
        )
    except (TemplateError, TypeError):
        return None
    text: str = rendered[0]
    return text


if __name__ == "__main__":
    main()
