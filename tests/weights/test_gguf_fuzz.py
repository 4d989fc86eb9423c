"""Truncated, mutated and lying files: each is read or refused, in little time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from draftwalk.weights import GgufFile
from support.hostile_gguf import REFUSED
from support.toy_checkpoint import write_toy

TESTS = Path(__file__).parent.parent
SOURCE = TESTS.parent / "src"
WORKER = TESTS / "support" / "fuzz_worker.py"
MUTATED = 1500

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the memory limit needs Linux's /proc"
)


def open_all(folder: Path) -> dict[str, tuple[str, float]]:
    """Outcome and seconds of every file of a folder, from the worker."""
    env = {**os.environ, "PYTHONPATH": f"{SOURCE}:{TESTS}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(WORKER), str(folder)],
        env=env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: (what, seconds) for name, (what, seconds) in json.loads(done.stdout).items()}


def assert_survived(report: dict[str, tuple[str, float]]) -> None:
    odd = {name: r for name, r in report.items() if r[0] not in ("read", "refused")}
    assert not odd
    slow = {name: r for name, r in report.items() if r[1] > 1}
    assert not slow
    assert report["whole"][0] == "read"


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    return write_toy(tmp_path / "whole").read_bytes()


def last_data_byte(path: Path) -> int:
    """Where the last tensor ends; what follows is padding."""
    tensors = GgufFile(path).tensors.values()
    assert path.stat().st_size % 32 == 0
    *_, last = tensors
    return path.stat().st_size - (-last.bytes % 32)


def test_every_truncation_is_refused(tmp_path: Path, whole: bytes) -> None:
    end = last_data_byte(tmp_path / "whole")
    lengths = [*range(0, 1600), *range(1600, end, 13), end - 1]
    for length in lengths:
        (tmp_path / f"cut-{length}").write_bytes(whole[:length])
    report = open_all(tmp_path)
    assert_survived(report)
    assert {what for name, (what, _) in report.items() if name != "whole"} == {"refused"}


def test_random_bytes_do_no_harm(tmp_path: Path, whole: bytes) -> None:
    rng = np.random.default_rng(7)
    header = len(whole) // 2
    for number in range(MUTATED):
        content = bytearray(whole)
        for at in rng.integers(4, header, rng.integers(1, 4)):
            content[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))])
        if number % 3 == 0:  # a whole 64-bit field of large numbers
            at = int(rng.integers(4, header))
            content[at : at + 8] = (1 << int(rng.integers(31, 64))).to_bytes(8, "little")
        (tmp_path / f"mutated-{number}").write_bytes(content)
    report = open_all(tmp_path)
    assert_survived(report)
    outcomes = [what for what, _ in report.values()]
    assert outcomes.count("refused") > MUTATED / 3
    assert outcomes.count("read") > MUTATED / 20


def test_lying_files_take_no_memory(tmp_path: Path, whole: bytes) -> None:
    for number, (content, _) in enumerate(REFUSED.values()):
        (tmp_path / f"lie-{number}").write_bytes(content)
    report = open_all(tmp_path)
    assert_survived(report)
    assert {what for name, (what, _) in report.items() if name != "whole"} == {"refused"}
