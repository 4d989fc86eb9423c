"""Features that waited make the same drafts as features that were learned at once."""

import random
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from draftwalk.draft import DraftRequest
from draftwalk.draft.backlog import MOST, Backlog
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.load import build_drafter
from draftwalk.models import open_model
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.target.load import build_target
from draftwalk.verify.noise import Noise
from support.models import CPU, FIXTURES, drafter_checkpoint, random_drafter, target

WIDTH, VOCABULARY, TAPS = 48, 160, (0, 2)
KINDS = ("dflash", "dflash2", "dflash2 sliding")


def make(kind: str, native: bool, context: int = 512) -> BlockDrafter:
    """A random drafter; two calls make the same one."""
    checkpoint = drafter_checkpoint(
        VOCABULARY,
        WIDTH,
        TAPS,
        selector=kind.startswith("dflash2"),
        layer_types=("sliding_attention" if "sliding" in kind else "full_attention",) * 2,
        context=context,
    )
    if not native:
        return random_drafter(checkpoint, target("llama-rope3"))
    operations = pytest.importorskip("draftwalk.ops.native").NativeOperations(2)
    of = build_target(open_model(FIXTURES / "targets" / "llama-rope3"), operations)
    return build_drafter(checkpoint, of.ops, of.tables, of.depth, 512)


@dataclass
class Twins:
    """The same texts for a drafter that learns at once and for one that may wait."""

    kind: str
    native: bool
    context: int = 512
    seed: int = 1
    lengths: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prompt, self.late = (make(self.kind, self.native, self.context) for _ in range(2))
        self.backlog = Backlog(self.late)
        self.draw = random.Random(self.seed)
        self.values = torch.Generator().manual_seed(self.seed)

    def open(self, slot: int) -> None:
        self.prompt.state.open(slot)
        self.late.state.open(slot)
        self.lengths[slot] = 0

    def close(self, slot: int) -> None:
        self.prompt.state.close(slot)
        self.backlog.close(slot)
        del self.lengths[slot]

    def read(self, sizes: dict[int, int], kept: dict[int, int], idle: set[int]) -> None:
        """A pass of the target; its features' memory is gone afterwards."""
        rowsets = [Rowset(slot, [0] * n, self.lengths[slot]) for slot, n in sizes.items()]
        rows = Rows.lay_out(rowsets, CPU)
        dtype = torch.float32 if self.native else torch.float64
        shape = (rows.size, len(TAPS) * WIDTH)
        features = torch.randn(shape, generator=self.values, dtype=dtype)
        self.prompt.observe(rows, features, kept)
        self.backlog.observe(rows, features, kept, idle)
        features.fill_(torch.nan)
        for slot, count in kept.items():
            self.lengths[slot] += count
            room = self.late.context
            assert self.backlog.length(slot) == min(self.lengths[slot], room)
            assert self.prompt.state.length(slot) == min(self.lengths[slot], room)
            assert self.backlog.waiting(slot) <= MOST

    def some_pass(self, most: int = 9) -> None:
        """Of some texts, each with some rows of which some are kept; some of them can wait."""
        slots = [slot for slot in self.lengths if self.draw.random() < 0.7] or [*self.lengths]
        sizes = {slot: self.draw.randint(1, most) for slot in slots}
        kept = {slot: self.draw.randint(0, size) for slot, size in sizes.items()}
        self.read(sizes, kept, {slot for slot in self.lengths if self.draw.random() < 0.75})

    def rewind(self, slot: int, length: int) -> None:
        length = min(length, self.prompt.state.reachable(slot, length))
        assert self.backlog.reachable(slot, length) == length
        self.prompt.state.truncate(slot, length)
        assert self.backlog.truncate(slot, length) == length
        self.lengths[slot] = length

    def outputs(self, slots: list[int]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """What tokens are picked from, of both."""
        requests = [
            DraftRequest(slot, [7] * (self.lengths[slot] + 1), 5, Sampling(), Noise(1))
            for slot in slots
        ]
        self.backlog.catch_up(slots)
        assert not any(self.backlog.waiting(slot) for slot in slots)
        return self.prompt.draft(requests), self.late.draft(requests)

    def check(self, slots: list[int]) -> None:
        for one, other in zip(*self.outputs(slots), strict=True):
            if self.native:
                assert torch.equal(one, other), "bit for bit"
            else:
                assert torch.allclose(one.double(), other.double(), atol=1e-9)


@pytest.mark.parametrize("native", [False, True], ids=["torch", "native"])
@pytest.mark.parametrize("kind", KINDS)
def test_drafts_after_a_pause(kind: str, native: bool) -> None:
    twins = Twins(kind, native)
    twins.open(0)
    twins.read({0: 70}, {0: 70}, set())
    for waited in (1, 2, 3, 40, 64):
        for _ in range(waited):
            twins.read({0: 1}, {0: 1}, {0})
        assert twins.backlog.waiting(0) == waited
        assert twins.late.state.length(0) == twins.lengths[0] - waited
        twins.check([0])


@pytest.mark.parametrize("native", [False, True], ids=["torch", "native"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_random_histories(kind: str, native: bool, seed: int) -> None:
    """Texts come, wait, draft, go back and leave, several of them in one pass."""
    twins = Twins(kind, native, seed=seed)
    twins.open(0)
    for _ in range(80):
        act = twins.draw.random()
        free = [slot for slot in range(4) if slot not in twins.lengths]
        slot = twins.draw.choice([*twins.lengths])
        if act < 0.08 and free:
            twins.open(free[0])
        elif act < 0.11 and len(twins.lengths) > 1:
            twins.close(slot)
        elif act < 0.2:
            twins.rewind(slot, twins.draw.randint(0, twins.lengths[slot]))
        elif act < 0.35:
            twins.check(
                sorted(twins.draw.sample([*twins.lengths], twins.draw.randint(1, 2)))
                if len(twins.lengths) > 1
                else [slot]
            )
        elif max(twins.lengths.values()) < 450:
            twins.some_pass(most=twins.draw.choice((1, 4, 60)))
    twins.check([*twins.lengths])


def test_no_more_than_some_rows_wait() -> None:
    twins = Twins("dflash2", native=False)
    twins.open(0)
    most = 0
    for _ in range(2 * MOST):
        twins.read({0: 1}, {0: 1}, {0})
        most = max(most, twins.backlog.waiting(0))
    assert most == MOST
    twins.read({0: MOST + 1}, {0: MOST + 1}, {0})
    assert twins.backlog.waiting(0) == 0, "too many at once are learned at once"
    assert twins.late.state.length(0) == twins.lengths[0]
    twins.check([0])


def test_features_beyond_the_drafters_context_do_not_wait() -> None:
    """No block will ever stand behind them."""
    twins = Twins("dflash2", native=False, context=40)
    twins.open(0)
    twins.read({0: 30}, {0: 30}, {0})
    twins.read({0: 30}, {0: 25}, {0})
    assert twins.backlog.waiting(0) == 40
    twins.read({0: 5}, {0: 5}, {0})
    assert twins.backlog.waiting(0) == 40
    twins.rewind(0, 20)
    assert twins.backlog.waiting(0) == 20
    twins.check([0])


def test_a_slot_is_forgotten_with_its_text() -> None:
    twins = Twins("dflash", native=False)
    for _ in range(2):
        twins.open(0)
        twins.read({0: 9}, {0: 8}, {0})
        assert twins.backlog.waiting(0) == 8
        twins.close(0)
    assert twins.backlog.waiting(0) == 0


def test_what_fails_to_be_learned_still_waits(monkeypatch) -> None:
    twins = Twins("dflash", native=False)
    twins.open(0)
    twins.read({0: 9}, {0: 9}, {0})

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(twins.late, "observe", fail)
        with pytest.raises(MemoryError):
            twins.backlog.catch_up([0])
    assert twins.backlog.waiting(0) == 9
    twins.check([0])


def test_what_was_learned_before_an_interrupt_does_not_wait_any_more(monkeypatch) -> None:
    twins = Twins("dflash", native=False)
    twins.open(0)
    twins.read({0: 9}, {0: 9}, {0})
    learn = twins.late.observe

    def interrupted(*given) -> None:
        learn(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(twins.late, "observe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            twins.backlog.catch_up([0])
    assert twins.backlog.waiting(0) == 0
    twins.read({0: 5}, {0: 4}, {0})
    assert twins.backlog.waiting(0) == 4
    twins.check([0])
