import io

import pytest
from rich.console import Console

from draftwalk.cli.show_draft import DraftPainter
from draftwalk.prompt import tokenizer_from_gguf
from draftwalk.prompt.byte_level import byte_alphabet
from draftwalk.step import Step, StepTimes
from draftwalk.weights import GgufFile
from support.talking_model import END, ids_of, write_target
from support.vocabularies import byte_level

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


HALF = "\U0001f999".encode()[:2]


@pytest.mark.parametrize(("drafted", "shown"), [(True, "[a][\ufffd]"), (False, "a\ufffd")])
def test_half_a_character_at_the_end_is_shown(drafted: bool, shown: str) -> None:
    metadata = byte_level("gpt-2")
    tokenizer = tokenizer_from_gguf(metadata)
    tokens = tuple(metadata["tokenizer.ggml.tokens"].index(byte_alphabet()[b]) for b in b"a" + HALF)
    draft = tokens if drafted else ()
    file = io.StringIO()
    painter = DraftPainter(tokenizer, Console(file=file, highlight=False, width=20))
    painter.paint(Step(0, draft, len(draft), tokens, "", None, TIMES))
    painter.finish()
    painter.finish()
    assert file.getvalue() == shown
