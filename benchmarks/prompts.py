"""Prompts of suites: a folder with a JSONL file for each, lines of turns."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftwalk.errors import UserError

SUITES = ("gsm8k", "mtbench", "humaneval", "mbpp", "math500", "bbh", "mmlu_stem")


def first_turns(folder: Path, suites: Sequence[str], count: int) -> list[str]:
    """The first turns of the first lines of every suite."""
    texts: list[str] = []
    for suite in suites:
        lines = (folder / f"{suite}.jsonl").read_text().splitlines()[:count]
        if len(lines) < count:
            print(f"{suite} has {len(lines)} prompts, not {count}", file=sys.stderr)
        texts += [json.loads(line)["turns"][0] for line in lines]
    return texts


@dataclass(frozen=True, slots=True)
class Prompt:
    """The first turn of a line, and where it belongs.

    Attributes:
        suite: its file.
        category: what the line says of itself, up to the first slash; else the suite.
        text: what the user says.
    """

    suite: str
    category: str
    text: str


def suite_files(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Files of the named suites; of all there are, if none is named.

    Raises:
        UserError: a suite is not there, or none is.
    """
    found = {path.stem: path for path in sorted(folder.glob("*.jsonl"))}
    if not found:
        raise UserError(f"{folder} has no suites", "give a folder with JSONL files of prompts")
    for name in names:
        if name not in found:
            raise UserError(f"{folder} has no suite {name}", f"it has {', '.join(found)}")
    return [found[name] for name in names or found]


def read_prompts(files: Sequence[Path], limit: int | None = None) -> list[Prompt]:
    """Prompts of files, no text twice; of each file at most `limit`, spread over its length.

    Files go through their categories one after the other, so the first lines would be of one kind.

    Raises:
        UserError: a file cannot be read, or a line is no prompt.
    """
    prompts: list[Prompt] = []
    seen: set[str] = set()
    for file in files:
        fresh = [prompt for prompt in _read(file) if prompt.text not in seen]
        fresh = list({prompt.text: prompt for prompt in fresh}.values())
        count = len(fresh) if limit is None else min(limit, len(fresh))
        chosen = [fresh[n * len(fresh) // count] for n in range(count)]
        seen |= {prompt.text for prompt in chosen}
        prompts += chosen
    return prompts


def _read(file: Path) -> list[Prompt]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}") from error
    return [_parse(line, file, n) for n, line in enumerate(lines, 1) if line.strip()]


def _parse(line: str, file: Path, number: int) -> Prompt:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise UserError(f"{file} line {number} is no JSON: {error}") from None
    match entry:
        case {"turns": [str(text), *_]} | {"prompt": str(text)}:
            category = str(entry.get("category") or file.stem)
            return Prompt(file.stem, category.partition("/")[0], text)
    raise UserError(f"{file} line {number} has neither turns nor prompt", "one of them is needed")
