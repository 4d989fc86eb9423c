"""A saved sequence goes on in another slot, or in another state, as if it had never stopped."""

import pytest
import torch

from draftwalk.errors import RollbackError
from support.models import new_pages, windowed_target
from support.states import KINDS, TEXT, TargetProbe, assert_as_fresh


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [0, 9, 64, 139])
def test_saved_and_loaded(kind: str, length: int) -> None:
    probe, elsewhere = KINDS[kind](), KINDS[kind]()
    probe.state.open(0)
    elsewhere.state.open(3)
    elsewhere.advance({3: (TEXT[200:270], 70)})
    if length:
        probe.advance({0: (TEXT[:length], length)})
    saved = probe.state.save(0)
    probe.advance({0: (TEXT[300:306], 6)})  # what is saved is a copy
    for other, slot in ((probe, 4), (elsewhere, 0)):
        other.state.load(slot, saved)
        assert_as_fresh(kind, other, slot, TEXT[:length])
        other.advance({slot: (TEXT[length : length + 6], 4)})
        assert_as_fresh(kind, other, slot, TEXT[: length + 4])
    assert_as_fresh(kind, elsewhere, 3, TEXT[200:270])
    assert_as_fresh(kind, probe, 0, TEXT[:length] + TEXT[300:306])
    elsewhere.state.load(9, saved)  # and loading does not use it up
    assert_as_fresh(kind, elsewhere, 9, TEXT[:length])


def saved_of(window: int) -> dict[str, torch.Tensor]:
    probe = TargetProbe(windowed_target(window))
    probe.state.open(0)
    probe.advance({0: (TEXT[:140], 140)})
    return probe.state.save(0)


def test_memory_of_other_sizes_is_refused() -> None:
    saved = saved_of(5)["0.k"]
    state = new_pages(2, 2, 16, 5)
    with pytest.raises(RollbackError, match="does not fit"):
        state.load(0, {"length": torch.tensor(1), "freed": torch.tensor(0), "k": saved, "v": saved})
    assert state.pages_in_use == 0
    state.open(0)  # the slot was not taken


@pytest.mark.parametrize(("window", "other"), [(5, None), (5, 100), (100, 5)])
def test_pages_that_a_window_has_left_behind_are_missed(window: int, other: int | None) -> None:
    saved = {key.removeprefix("0."): value for key, value in saved_of(window).items()}
    layers, _, _, heads, head_dim = saved["k"].shape
    state = new_pages(layers, heads, head_dim, other)
    if window > (other or window + 1):
        state.load(0, saved)  # more than is needed does no harm
        assert state.length(0) == 140
        return
    with pytest.raises(RollbackError, match="does not fit"):
        state.load(0, saved)
