"""Models with every kind of state, behind one small interface: advance some slots, look at one."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from draftwalk.draft import DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.none import EmptyDrafter
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.state import State, pass_over
from draftwalk.target import Target
from draftwalk.verify.noise import Noise
from support.models import (
    CPU,
    drafter_checkpoint,
    hidden_rows,
    random_drafter,
    target,
    windowed_target,
)
from support.recurrent import HybridTarget, RecurrentTarget

VOCABULARY = 160
Parts = Mapping[int, tuple[Sequence[int], int]]


class Probe(Protocol):
    """Something with a state that can be driven by hand."""

    state: State

    def advance(self, parts: Parts) -> None:
        """One pass: by slot, the tokens of its rows and how many of them are kept."""

    def look(self, slot: int) -> Tensor:
        """What the model would say from here; leaves no trace."""


class TargetProbe:
    """Looks at the logits of two further rows."""

    def __init__(self, model: Target[State]) -> None:
        self._model = model
        self.state = model.new_state()

    def advance(self, parts: Parts) -> None:
        rows = _rows(self.state, parts)
        with pass_over(self.state, rows) as kept:
            self._forward(rows)
            kept.update({slot: keep for slot, (_, keep) in parts.items()})

    def look(self, slot: int) -> Tensor:
        rows = Rows.lay_out([Rowset(slot, [1, 2], self.state.length(slot))], CPU)
        with pass_over(self.state, rows):
            return self._forward(rows)

    def _forward(self, rows: Rows) -> Tensor:
        return self._model.forward(rows, self.state, ()).logits


class DrafterProbe:
    """Features are a function of the token; looks at the final rows of a block."""

    def __init__(self, drafter: BlockDrafter) -> None:
        self._drafter = drafter
        self.state: State = drafter.state
        draw = torch.Generator().manual_seed(3)
        width = drafter.config.target_width * len(drafter.taps)
        self._features = torch.randn(VOCABULARY, width, generator=draw, dtype=torch.float64)

    def advance(self, parts: Parts) -> None:
        rows = _rows(self.state, parts)
        kept = {slot: keep for slot, (_, keep) in parts.items()}
        self._drafter.observe(rows, self._features[rows.tokens], kept)

    def look(self, slot: int) -> Tensor:
        history = [1] * (self.state.length(slot) + 1)
        return hidden_rows(self._drafter, [DraftRequest(slot, history, 5, Sampling(), Noise(0))])


class CountingProbe:
    """A state that holds nothing but a length."""

    def __init__(self) -> None:
        self._drafter = EmptyDrafter()
        self.state: State = self._drafter.state

    def advance(self, parts: Parts) -> None:
        rows = _rows(self.state, parts)
        kept = {slot: keep for slot, (_, keep) in parts.items()}
        self._drafter.observe(rows, torch.empty(rows.size, 0), kept)

    def look(self, slot: int) -> Tensor:
        return torch.tensor(self.state.length(slot), dtype=torch.float64)


def _rows(state: State, parts: Parts) -> Rows:
    return Rows.lay_out(
        [Rowset(slot, t, state.length(slot), "none") for slot, (t, _) in parts.items()], CPU
    )


def _drafter(layer_types: Sequence[str]) -> Probe:
    model = target("llama-rope3")
    checkpoint = drafter_checkpoint(VOCABULARY, 48, (0, 2), selector=True, layer_types=layer_types)
    return DrafterProbe(random_drafter(checkpoint, model))


WINDOWS = (1, 5, 64, 65, 100)
KINDS: Mapping[str, Callable[[], Probe]] = {
    "full": lambda: TargetProbe(target("llama-rope3")),
    **{
        f"window {window}": lambda window=window: TargetProbe(windowed_target(window))
        for window in WINDOWS
    },
    "mixed windows": lambda: TargetProbe(windowed_target(8, full=True)),
    "recurrent": lambda: TargetProbe(RecurrentTarget()),
    "hybrid": lambda: TargetProbe(HybridTarget()),
    "drafter": lambda: _drafter(("full_attention",)),
    "sliding drafter": lambda: _drafter(("sliding_attention", "full_attention")),
    "counting": CountingProbe,
}

TEXT = [(7 * n * n + 3 * n) % VOCABULARY for n in range(400)]


@cache
def fresh(kind: str, tokens: tuple[int, ...]) -> Tensor:
    """What a run says that only ever saw these tokens, in one pass."""
    probe = KINDS[kind]()
    probe.state.open(0)
    if tokens:
        probe.advance({0: (tokens, len(tokens))})
    return probe.look(0)


def assert_as_fresh(kind: str, probe: Probe, slot: int, tokens: Sequence[int]) -> None:
    """The slot goes on exactly as if it had only ever seen these tokens."""
    assert probe.state.length(slot) == len(tokens)
    torch.testing.assert_close(probe.look(slot), fresh(kind, tuple(tokens)), rtol=1e-9, atol=1e-9)
    assert probe.state.length(slot) == len(tokens)
