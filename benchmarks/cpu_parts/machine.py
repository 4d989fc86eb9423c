"""What the machine can do at most: builds and runs `machine.cpp`."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("machine.cpp")
BUFFER_MIB = 512
REPETITIONS = 7
FLAGS = ("-O3", "-march=native", "-std=c++17", "-pthread")


class MachineError(Exception):
    """The probe cannot be built or run."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of all threads together, medians.

    Attributes:
        threads: how many.
        read_gb_s: streaming reads; `read_1_gb_s` is one thread's.
        dot_gmac_s: products of 8-bit integers, 1e9 a second, by kind of weights: "narrow" (up to
            6 bits) and "wide" (8 bits); empty where no instruction sequence is known.
        sequences: the instructions that reached it.
    """

    threads: int
    read_gb_s: float
    read_1_gb_s: float
    dot_gmac_s: dict[str, float]
    sequences: dict[str, str]

    @staticmethod
    def median(found: Sequence[Machine]) -> Machine:
        """The middle of several measurements of one machine."""
        first = found[0]
        return Machine(
            threads=first.threads,
            read_gb_s=statistics.median(one.read_gb_s for one in found),
            read_1_gb_s=statistics.median(one.read_1_gb_s for one in found),
            dot_gmac_s={
                kind: statistics.median(one.dot_gmac_s[kind] for one in found)
                for kind in first.dot_gmac_s
            },
            sequences=first.sequences,
        )


class Probe:
    """The built program; its folder is removed by `close`."""

    def __init__(self) -> None:
        compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
        if compiler is None:
            raise MachineError("no C++ compiler is found; the machine's rates need one")
        self._folder = tempfile.TemporaryDirectory()
        self._program = Path(self._folder.name) / "machine"
        command = [compiler, *FLAGS, "-o", str(self._program), str(SOURCE)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise MachineError(f"{SOURCE.name} cannot be built:\n{built.stderr}")

    def close(self) -> None:
        """Removes the program."""
        self._folder.cleanup()

    def measure(
        self, threads: int, buffer_mib: int = BUFFER_MIB, repetitions: int = REPETITIONS
    ) -> Machine:
        """Measures now, with nothing else of ours running."""
        command = [str(self._program), str(threads), str(buffer_mib), str(repetitions)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            raise MachineError(f"{SOURCE.name} failed: {run.stderr.strip()}")
        found = json.loads(run.stdout)
        kinds = [kind for kind in ("narrow", "wide") if kind in found]
        return Machine(
            threads=threads,
            read_gb_s=found["read_gb_s"],
            read_1_gb_s=found["read_1_gb_s"],
            dot_gmac_s={kind: found[kind]["gmac_s"] for kind in kinds},
            sequences={kind: found[kind]["sequence"] for kind in kinds},
        )
