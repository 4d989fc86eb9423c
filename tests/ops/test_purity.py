"""A forward pass is made of operations only: another back end could record and replay it.

Every torch function is watched; one that runs while no operation does is a free expression.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

from draftwalk.draft import DraftRequest
from draftwalk.draft.load import build_drafter
from draftwalk.models import open_model
from draftwalk.ops.torch import TorchOperations
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.state import pass_over
from draftwalk.state.pages import PagedKV
from draftwalk.target.load import build_target
from draftwalk.verify.noise import Noise
from support.models import CPU, FIXTURES, drafter_checkpoint

# Shapes are known without looking into a tensor; row numbers are made on the host.
ALLOWED = {"torch.Tensor.shape.__get__", "torch.tensor"}


class Watch(TorchFunctionMode):
    """Collects what runs outside operations, the row table and the states."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.calls = 0
        self.free: set[str] = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = resolve_name(func) or repr(func)
        if not self.inside and name not in ALLOWED:
            self.free.add(name)
        return func(*args, **(kwargs or {}))

    def around(self, function: Callable[..., object]) -> Callable[..., object]:
        """The function, as one that may use torch."""

        def call(*args: object, **kwargs: object) -> object:
            self.inside += 1
            self.calls += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.inside -= 1

        return call


def watched_operations(watch: Watch) -> TorchOperations:
    methods = {
        name: watch.around(value)
        for name, value in vars(TorchOperations).items()
        if callable(value) and not name.startswith("__") and name != "run"
    }
    return type("Watched", (TorchOperations,), methods)(CPU, torch.float64)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """A watch that knows the row table and the states, which are no part of a forward."""
    one = Watch()
    monkeypatch.setattr(Rows, "lay_out", staticmethod(one.around(Rows.lay_out)))
    for name, value in vars(Rows).items():
        if isinstance(value, property) and value.fget is not None:
            monkeypatch.setattr(Rows, name, property(one.around(value.fget)))
    for name in ("begin", "commit"):
        monkeypatch.setattr(PagedKV, name, one.around(vars(PagedKV)[name]))
    return one


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    before = watch.calls
    with watch:
        yield
    assert watch.calls > before
    assert watch.free == set()


@pytest.mark.parametrize("name", sorted(path.name for path in (FIXTURES / "targets").iterdir()))
def test_targets(name: str, watch: Watch) -> None:
    model = build_target(open_model(FIXTURES / "targets" / name), watched_operations(watch))
    state = model.new_state()
    for slot in (0, 1):
        state.open(slot)
    rowsets = [Rowset(0, [1, 2, 3], 0, "last"), Rowset(1, [4, 5], 0, "all")]
    rows = Rows.lay_out(rowsets, CPU)
    with pass_over(state, rows), watching(watch):
        out = model.forward(rows, state, (0, model.depth - 1))
    assert not out.logits.isnan().any()


@pytest.mark.parametrize("selector", [True, False])
@pytest.mark.parametrize("layers", [("full_attention",), ("sliding_attention", "full_attention")])
def test_drafters(selector: bool, layers: tuple[str, ...], watch: Watch) -> None:
    ops = watched_operations(watch)
    model = build_target(open_model(FIXTURES / "targets" / "qwen3"), ops)
    made = drafter_checkpoint(160, 48, (0, 1), selector, layer_types=layers)
    scaled = {
        "output_multiplier": 0.7,
        "final_logit_softcapping": 9.0,
        "input_embedding_scale": 3.0,
    }
    made.config["dflash_config"].update(scaled)  # type: ignore[attr-defined]
    drafter = build_drafter(made, ops, model.tables, model.depth, 200)
    for slot in (0, 1):
        drafter.state.open(slot)
    rows = Rows.lay_out([Rowset(0, [0] * 4, 0), Rowset(1, [0] * 3, 0)], CPU)
    features = torch.randn(7, 96, dtype=torch.float64)
    with watching(watch):
        drafter.observe(rows, features, {0: 4, 1: 2})
    requests = [
        DraftRequest(slot, [0] * length + [1], 5, Sampling(), Noise(0))
        for slot, length in ((0, 4), (1, 2))
    ]
    with watching(watch):
        outputs = drafter.draft(requests)
    assert all(part.isfinite().all() for part in outputs)


def test_the_watch_sees_what_it_should(watch: Watch) -> None:
    x = torch.ones(2, 3)
    with watch:
        assert x.shape == (2, 3)
        assert watch.free == set()
        _: Tensor = x[0][:1]
        if (x + 1).sum() > 0:
            x.exp()
    assert {"torch.Tensor.add", "torch.Tensor.sum", "torch.Tensor.exp"} <= watch.free
    assert "torch.Tensor.__getitem__" in watch.free
    assert "torch.Tensor.__bool__" in watch.free
