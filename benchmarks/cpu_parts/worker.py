"""An engine in a process of its own: one JSON request a line on stdin, one answer a line on stdout.

    python -m cpu_parts.worker llama.cpp|xllamacpp|draftwalk [BACK_END]

A request is {"do": name of a method of `Arm`, or "memory", ...arguments}; an answer is
{"value": ...} or {"error": text}. Between requests the process sleeps. Logits go through a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import numpy as np

from cpu_parts.arm import Arm

_STATUS = Path("/proc/self/status")
Json = dict[str, object]


def memory() -> dict[str, int]:
    """Resident bytes of this process, now and at most."""
    lines = (line.split() for line in _STATUS.read_text().splitlines())
    found = {words[0]: int(words[1]) * 1024 for words in lines if words[0] in ("VmRSS:", "VmHWM:")}
    return {"rss": found["VmRSS:"], "peak": found["VmHWM:"]}


def forget_peak() -> None:
    """Lets the peak begin here; where that is not allowed, imports are part of it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def make_arm(engine: str, back_end: str) -> Arm:
    """The engine, with everything imported that it needs."""
    if engine == "draftwalk":
        from cpu_parts.draftwalk_arm import DraftwalkArm  # this environment has it

        assert back_end in ("native", "torch"), back_end
        return DraftwalkArm("native" if back_end == "native" else "torch")
    from cpu_parts.llama_arm import LlamaArm

    return LlamaArm(engine)


def requests(arm: Arm) -> dict[str, Callable[[Json], object]]:
    """What can be asked for."""

    def logits(asked: Json) -> object:
        values = arm.logits(_ids(asked, "ids"))
        np.save(str(asked["into"]), values)
        return None

    return {
        "load": lambda a: arm.load(Path(str(a["path"])), _int(a, "threads"), _int(a, "context")),
        "read": lambda a: arm.read(_ids(a, "ids")),
        "passes": lambda a: arm.passes(_ids(a, "ids"), _int(a, "count")),
        "decode": lambda a: arm.decode(_int(a, "first"), _int(a, "tokens")),
        "prefill": lambda a: arm.prefill(_ids(a, "ids")),
        "logits": logits,
        "kv_bytes": lambda _: arm.kv_bytes(),
        "memory": lambda _: memory(),
    }


def serve(engine: str, back_end: str, into: TextIO) -> None:
    """Answers until stdin ends; the first answer says that the engine is there."""
    arm = make_arm(engine, back_end)
    known = requests(arm)
    forget_peak()
    print(json.dumps({"value": "ready"}), file=into, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"value": known[asked["do"]](asked)}
        except Exception as error:  # told to whoever asked, who decides
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=into, flush=True)


def main() -> None:
    """Keeps stdout for answers: whatever a library prints there goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine, back_end = [*sys.argv[1:], "torch"][:2]
    try:
        serve(engine, back_end, answers)
    except (RuntimeError, ImportError, OSError, AttributeError) as error:
        print(json.dumps({"error": f"{engine} cannot start: {error}"}), file=answers, flush=True)
        sys.exit(1)


def _int(asked: Json, name: str) -> int:
    value = asked[name]
    assert isinstance(value, int)
    return value


def _ids(asked: Json, name: str) -> list[int]:
    value = asked[name]
    assert isinstance(value, list)
    return value


if __name__ == "__main__":
    main()
