"""draftwalk as an arm, on any of its back ends. The one place that chooses the back end."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from cpu_parts.arm import Logits
from cpu_parts.timed import timed_passes
from draftwalk.draft.none import EmptyDrafter
from draftwalk.engine import Engine, Placement
from draftwalk.loop import CHUNK
from draftwalk.models import open_model
from draftwalk.ops import Operations
from draftwalk.ops.choice import BackEnd, chosen, open_operations
from draftwalk.rows import Rows, Rowset, Wanted
from draftwalk.sequence import Sequence as Text
from draftwalk.settings import Limits, Sampling
from draftwalk.state import pass_over
from draftwalk.state.attention import AttentionState
from draftwalk.target.load import build_target

CPU = torch.device("cpu")
SLOT = 0


def resolve_back_end(asked: BackEnd) -> BackEnd:
    """What "auto" means here.

    Raises:
        UserError: the native one is asked for and is not there.
    """
    return chosen(asked, CPU, torch.float32)


def operations(back_end: BackEnd, threads: int) -> Operations:
    """A back end by name, with its threads."""
    if resolve_back_end(back_end) == "torch":
        torch.set_num_threads(threads)
    return open_operations(CPU, torch.float32, back_end, threads)


class DraftwalkArm:
    """A target without a drafter: passes are the target's own, decoding is the whole loop."""

    def __init__(self, back_end: BackEnd) -> None:
        self._back_end = back_end
        self._read: list[int] = []

    def load(self, path: Path, threads: int, context: int) -> float:
        """See `Arm`; the tokenizer is part of it, as llama.cpp loads its vocabulary."""
        start = time.perf_counter()
        ops = operations(self._back_end, threads)
        checkpoint = open_model(path)
        target = build_target(checkpoint, ops, context)
        placement = Placement(context=context)
        self.engine = Engine(checkpoint, target, EmptyDrafter(), placement)
        self.engine.tokenizer.stop_ids  # noqa: B018 - built when first asked for
        taken = time.perf_counter() - start
        self._target = target
        self._state: AttentionState = target.new_state()
        self._state.open(SLOT)
        self._text: Text | None = None
        return taken

    def read(self, ids: Sequence[int]) -> None:
        """See `Arm`."""
        self._state.close(SLOT)
        self._state.open(SLOT)
        for start in range(0, len(ids), CHUNK):
            self._pass(ids[start : start + CHUNK], "none", keep=True)
        self._read = list(ids)

    def passes(self, ids: Sequence[int], count: int) -> list[float]:
        """See `Arm`; laying out the rows and taking them back are part of the time."""
        times = []
        for _ in range(count):
            start = time.perf_counter()
            self._pass(ids, "all", keep=False)
            times.append(time.perf_counter() - start)
        return times

    def decode(self, first: int, tokens: int) -> float:
        """See `Arm`; the clock starts when the prompt is read and has given its first token."""
        limits = Limits(max_tokens=tokens + 1, ignore_eos=True)
        prompt = [*self._read, first]
        text = self.engine.start(prompt, Sampling(), limits, after=self._text)
        self._text = text
        steps = self.engine.steps(text)
        while not text.steps or not text.steps[-1].tokens:
            next(steps)
        start = time.perf_counter()
        gained = sum(len(step.tokens) for step in steps)
        taken = time.perf_counter() - start
        if text.error is not None:
            raise text.error
        return taken * tokens / gained

    def prefill(self, ids: Sequence[int]) -> float:
        """See `Arm`; in the loop's own chunks."""
        self.read([])
        start = time.perf_counter()
        for at in range(0, len(ids), CHUNK):
            chunk = ids[at : at + CHUNK]
            self._pass(chunk, "last" if at + CHUNK >= len(ids) else "none", keep=True)
        return time.perf_counter() - start

    def logits(self, ids: Sequence[int]) -> Logits:
        """See `Arm`."""
        values: Logits = self._pass(ids, "all", keep=True).float().numpy().copy()
        return values

    def profile(self, ids: Sequence[int], count: int) -> dict[str, float]:
        """Seconds of each kind of kernel in a pass, medians; the native back end only.

        Passes and steps of decoding without clocks in between take turns with them: "pass", "step".
        """
        passes, steps = [], []
        found: list[list[tuple[str, float]]] = []
        for _ in range(count):
            with timed_passes(self._target.ops) as timed:
                self.passes(ids, 1)
            found += [one.calls for one in timed]
            passes += self.passes(ids, 1)
            steps.append(self.decode(ids[0], 2) / 2)
        sums: dict[str, list[float]] = {"pass": passes, "step": steps}
        for n, calls in enumerate(found):
            for label, seconds in calls:
                sums.setdefault(label, [0.0] * count)[n] += seconds
        return {label: statistics.median(values) for label, values in sums.items()}

    def kv_bytes(self) -> int:
        """See `Arm`; of passes and loop together."""
        return self._state.bytes + self.engine.loop.state.bytes

    def _pass(self, ids: Sequence[int], wanted: Wanted, keep: bool) -> Tensor:
        length = self._state.length(SLOT)
        rows = Rows.lay_out([Rowset(SLOT, ids, length, wanted)], CPU)
        with self._target.ops.alone(), pass_over(self._state, rows) as kept:
            out = self._target.forward(rows, self._state, ())
            if keep:
                kept[SLOT] = rows.size
        return out.logits
