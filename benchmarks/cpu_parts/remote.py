"""The other end of `worker.py`: an arm that lives in a process of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import cast

import numpy as np

from cpu_parts.arm import Logits

BENCHMARKS = Path(__file__).parent.parent


class ArmError(Exception):
    """An engine said what is wrong, or died."""


class RemoteArm:
    """Starts an engine's process and waits until it is ready.

    Args:
        python: the interpreter of the environment that has the engine.
        engine: its name.
        back_end: of draftwalk.
    """

    def __init__(self, python: Path, engine: str, back_end: str = "torch") -> None:
        self._engine = engine
        command = [str(python), "-m", "cpu_parts.worker", engine, back_end]
        try:
            self._process = subprocess.Popen(
                command, cwd=BENCHMARKS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise ArmError(f"{engine}: {python} cannot be run: {error.strerror}") from error
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RemoteArm:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        with self._process as process:
            process.kill()

    def load(self, path: Path, threads: int, context: int) -> float:
        """See `Arm`."""
        return cast(float, self._ask("load", path=str(path), threads=threads, context=context))

    def read(self, ids: Sequence[int]) -> None:
        """See `Arm`."""
        self._ask("read", ids=list(ids))

    def passes(self, ids: Sequence[int], count: int) -> list[float]:
        """See `Arm`."""
        return cast(list[float], self._ask("passes", ids=list(ids), count=count))

    def decode(self, first: int, tokens: int) -> float:
        """See `Arm`."""
        return cast(float, self._ask("decode", first=first, tokens=tokens))

    def prefill(self, ids: Sequence[int]) -> float:
        """See `Arm`."""
        return cast(float, self._ask("prefill", ids=list(ids)))

    def logits(self, ids: Sequence[int]) -> Logits:
        """See `Arm`."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "logits.npy"
            self._ask("logits", ids=list(ids), into=str(path))
            return cast(Logits, np.load(path))

    def kv_bytes(self) -> int | None:
        """See `Arm`."""
        return cast(int | None, self._ask("kv_bytes"))

    def memory(self) -> dict[str, int]:
        """Resident bytes of the process, "rss" now and "peak" since its imports."""
        return cast(dict[str, int], self._ask("memory"))

    def _ask(self, do: str, **arguments: object) -> object:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ArmError(f"{self._engine}: its process has ended") from None
        return self._answer()

    def _answer(self) -> object:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ArmError(f"{self._engine}: its process has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ArmError(f"{self._engine}: {answer['error']}")
        return answer["value"]
