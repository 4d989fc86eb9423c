"""Prompts from the target itself, for whoever has none.

An instruction-tuned model whose chat template stops where the user's turn begins writes a user's
message (Magpie, arXiv 2406.08464). They are drawn at temperature 1 from numbered seeds, so the same
numbers give the same prompts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from draftwalk.engine import Engine
from draftwalk.errors import PromptError
from draftwalk.prompt.messages import Message
from draftwalk.sequence import Sequence
from draftwalk.settings import Limits, Sampling
from draftwalk.weights.whole_file import whole_file

SOURCE = "self"
_MARK = "\u2402"  # stands where the user's text would
_MOST_TOKENS = 160
_LEAST_CHARACTERS = 12
_TOP_P = 0.95


def write_self_prompts(
    engine: Engine, count: int, file: Path, parallel: int, report: Callable[[int], bool]
) -> None:
    """Draws prompts into a file of JSON lines, unless there is one already.

    Args:
        engine: the target.
        count: prompts to draw; a few of them are dropped, as repeated, cut short or empty.
        file: to write.
        parallel: drawn at a time.
        report: told how many are drawn; says whether to go on.

    Raises:
        PromptError: it writes none.
    """
    if file.exists():
        return
    in_time = True

    def going_on(done: int) -> bool:
        nonlocal in_time
        in_time = report(done)
        return in_time

    texts = draw_prompts(engine, count, parallel, going_on)
    if not texts:
        name = engine.checkpoint.path.name
        raise PromptError(
            f"{name} wrote no prompts"
            if in_time
            else f"the time was too short for {name}'s prompts",
            "give prompts: --prompts FILE"
            if in_time
            else "give it more, or prompts: --prompts FILE",
        )
    with whole_file(file) as out:
        for number, text in texts.items():
            line = {"id": f"{SOURCE}-{number:06d}", "turns": [text]}
            out.write((json.dumps(line, ensure_ascii=False) + "\n").encode())


def draw_prompts(
    engine: Engine, count: int, parallel: int, report: Callable[[int], bool]
) -> dict[int, str]:
    """Drawn prompts by number, each text once."""
    beginning = _before_the_user(engine)
    engine = engine.plain()
    running: dict[int, Sequence] = {}
    found: dict[str, int] = {}
    begun = 0
    try:
        while begun < count or running:
            while begun < count and len(running) < parallel:
                sampling = Sampling(temperature=1.0, top_p=_TOP_P, seed=begun)
                running[begun] = engine.start(beginning, sampling, Limits(_MOST_TOKENS))
                begun += 1
            engine.loop.step()
            for number in [n for n, text in running.items() if text.finish_reason is not None]:
                ended = running.pop(number)
                text = "".join(step.text for step in ended.steps).strip()
                if ended.finish_reason == "stop" and len(text) >= _LEAST_CHARACTERS:
                    found[text] = min(number, found.get(text, number))
                engine.release(ended)
            if not report(begun - len(running)):
                break
    finally:
        for left in running.values():
            engine.release(left)
    return {number: text for text, number in sorted(found.items(), key=lambda item: item[1])}


def _before_the_user(engine: Engine) -> list[int]:
    """The tokens of a conversation up to where the user's first message begins."""
    if engine.template is None:
        raise PromptError(
            f"{engine.checkpoint.path.name} has no chat template, so it writes no prompts",
            "give prompts: --prompts FILE",
        )
    words = engine.tokenizer
    text = engine.template.render([Message("user", _MARK)], False, {}, shield=words.shield)
    before, found, _ = text.partition(_MARK)
    if not found:
        raise PromptError(
            "the chat template does not show where a user's message begins",
            "give prompts: --prompts FILE",
        )
    return words.encode_prompt(before, special=True)
