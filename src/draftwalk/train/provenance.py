"""What a run was: arguments, versions, data and revision, for whoever finds its folder later."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from draftwalk.train.shards import AnswerSet

_SECONDS = 5


def provenance(arguments: Mapping[str, object], data: AnswerSet, target: Path) -> dict[str, object]:
    """Facts about a run that begins or goes on now.

    Args:
        arguments: what was asked for.
        data: the answers.
        target: the model's file or folder.
    """
    return {
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "arguments": dict(arguments),
        "target": target.name,
        "answers": len(data),
        "answer_tokens": data.tokens,
        "data_checksum": data.checksum,
        "draftwalk": version("draftwalk"),
        "revision": revision(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def revision() -> str | None:
    """The git revision of this package's sources, with a plus if they were changed since."""
    here = Path(__file__).parent

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_SECONDS
        ).stdout.strip()

    try:
        found = ask("rev-parse", "HEAD")
        return found + ("+" if ask("status", "--porcelain", "--", str(here.parent)) else "")
    except (OSError, subprocess.SubprocessError):
        return None
