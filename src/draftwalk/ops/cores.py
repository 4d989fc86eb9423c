"""How many threads are worth starting: physical cores that this process may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def available_cores() -> int:
    """Physical cores, at least one; two threads of one core count as one."""
    if sys.platform != "linux":
        return max(1, os.cpu_count() or 1)
    siblings = {_siblings(cpu) for cpu in os.sched_getaffinity(0)}
    return max(1, min(len(siblings), _quota()))


def _siblings(cpu: int) -> str:
    """What names the core of a logical processor."""
    try:
        return (_CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _quota() -> int:
    """Processors' worth of time that a container is given; a great number where that is open."""
    try:
        most, period = _QUOTA.read_text().split()
        return max(1, int(most) // int(period))
    except (OSError, ValueError):
        return sys.maxsize
