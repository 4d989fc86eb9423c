"""Damaged drafters are refused in one line by the converter too, and nothing is left of them."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import pytest

from draftwalk.convert import Container, Options, convert
from draftwalk.draft.whole import check_whole
from draftwalk.errors import UserError
from draftwalk.models import open_model
from support.drafter_folders import random_drafter_folder, target_of

LAYOUTS: tuple[tuple[Container, str], ...] = (
    ("gguf", "x.gguf"),
    ("hf", "x"),
    ("speculators", "y"),
)


@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_changed(seed: int, tmp_path: Path) -> None:
    """What comes out all the same is a drafter that loads."""
    draw = random.Random(seed)
    source, path = tmp_path / "source", tmp_path / "d.gguf"
    made = random_drafter_folder(seed)
    width = made.config["hidden_size"]
    assert isinstance(width, int)
    options = Options(tokenizer=False, force=True, target=target_of(width))
    convert(open_model(made.write(source)), path, "gguf", options)
    whole = path.read_bytes()
    messages = []
    for n in range(40):
        changed = bytearray(whole)
        for _ in range(draw.choice((1, 2, 8))):
            changed[draw.randrange(min(len(whole), 9000))] = draw.randrange(256)
        path.write_bytes(changed)
        to, name = LAYOUTS[n % len(LAYOUTS)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                convert(open_model(path), tmp_path / name, to, options)
                check_whole(open_model(tmp_path / name))
        except UserError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert all(len(message.splitlines()) == 1 for message in messages)
    assert not [message for message in messages if "fault of the converter" in message]
    there = {entry.name for entry in tmp_path.iterdir()}
    assert there <= {"source", "d.gguf", *(name for _, name in LAYOUTS)}
