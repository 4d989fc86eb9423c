import io

import pytest
from rich.console import Console

from draftwalk.cli.show_draft import DraftPainter
from draftwalk.prompt import tokenizer_from_gguf
from draftwalk.step import Step, StepTimes
from draftwalk.weights import GgufFile
from support.talking_model import END, ids_of, write_target

TIMES = StepTimes(0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = write_target(tmp_path_factory.mktemp("m") / "t.gguf")
    return tokenizer_from_gguf(GgufFile(path).metadata)


def step(draft: str, accepted: int, own: list[int]) -> Step:
    drafted = ids_of(draft)
    tokens = (*drafted[:accepted], *own)
    return Step(0, tuple(drafted), accepted, tokens, "", None, TIMES)


def painted(tokenizer, steps: list[Step], **console: object) -> str:
    file = io.StringIO()
    painter = DraftPainter(tokenizer, Console(file=file, highlight=False, width=20, **console))
    for one in steps:
        painter.paint(one)
    return file.getvalue()


STEPS = [
    step("", 0, ids_of("T")),
    step("he x", 3, ids_of("c")),
    step("a\nt", 0, ids_of("o")),
    step("ws[/b]", 6, [END]),
]


def test_marks_stand_in_for_colours(tokenizer) -> None:
    assert painted(tokenizer, STEPS) == "T[he ]{-x-}c{-a␍t-}o[ws[/b]]<|im_end|>".replace("␍", "⏎")


def test_colours_need_no_marks(tokenizer) -> None:
    shown = painted(tokenizer, STEPS, force_terminal=True, color_system="standard")
    green, struck, off = "\x1b[32m", "\x1b[2;9;31m", "\x1b[0m"
    assert shown == (
        f"T{green}he {off}{struck}x{off}c{struck}a⏎t{off}o{green}ws[/b]{off}<|im_end|>"
    )


def test_no_color_falls_back_to_marks(tokenizer) -> None:
    shown = painted(tokenizer, STEPS[:2], force_terminal=True, no_color=True)
    assert shown == "T[he ]{-x-}c"
