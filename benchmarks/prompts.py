"""Prompts of suites: a folder with a JSONL file for each, lines of turns."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

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
