"""Open every file of a folder under limits on memory and time; a process of its own.

Prints one JSON object: file name to [outcome, seconds of processor time]; an outcome is "read", or
"refused", or the name of an exception that no file may cause.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from draftwalk.errors import CheckpointError
from draftwalk.weights import open_checkpoint
from support.toy_checkpoint import TOY

HEADROOM = 48 << 20
SECONDS = 30  # of processor time for the whole folder: an endless loop ends too


def outcome(path: Path) -> str:
    """What came of one file; the tensors of a readable one are unpacked."""
    try:
        checkpoint = open_checkpoint(path, {"toy": TOY})
        for name in checkpoint.tensors:
            checkpoint.tensors[name].unpack()
    except CheckpointError as error:
        return "refused" if "\n" not in str(error) else "refused in several lines"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def main() -> None:
    folder = Path(sys.argv[1])
    outcome(folder / "whole")  # imports and caches before the limit
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + HEADROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    report = {}
    for path in sorted(folder.iterdir()):
        start = time.process_time()
        what = outcome(path)
        report[path.name] = [what, time.process_time() - start]
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()
