from __future__ import annotations

import pytest

from draftwalk.errors import CheckpointError
from draftwalk.weights import TensorSource
from support.toy_checkpoint import weight


def source(*names: str) -> TensorSource:
    return TensorSource({name: weight(name, (4, 8)) for name in names}, "here")


def test_taking_everything_is_the_end() -> None:
    tensors = source("a", "b", "model.rotary_emb.inv_freq", "rotary_emb.inv_freq")
    assert tensors.take("a", (4, 8)).name == "a"
    taken = tensors.take_optional("b", (4, 8))
    assert taken is not None
    assert tensors.take_optional("c", (4, 8)) is None
    tensors.finish()


def test_a_missing_tensor_is_named_with_its_neighbour() -> None:
    with pytest.raises(CheckpointError, match=r"here: tensor norm\.weigh is missing.*norm\.weight"):
        source("norm.weight").take("norm.weigh", (4, 8))
    with pytest.raises(CheckpointError, match="incomplete"):
        source("norm.weight").take("x", (4, 8))


@pytest.mark.parametrize("take", ["take", "take_optional"])
def test_a_wrong_shape_shows_both(take: str) -> None:
    tensors = source("a")
    method = tensors.take if take == "take" else tensors.take_optional
    with pytest.raises(CheckpointError, match=r"a has shape \[4, 8\], expected \[8, 4\]"):
        method("a", (8, 4))


def test_leading_ones_that_gguf_drops() -> None:
    assert source("a").take("a", (1, 1, 4, 8)).unpack().shape == (1, 1, 4, 8)
    with pytest.raises(CheckpointError, match="expected"):
        source("a").take("a", (4, 1, 8))


def test_leftovers_are_named_and_counted() -> None:
    tensors = source("a", "b", "c", "d", "e", "f", "g")
    tensors.take("b", (4, 8))
    tensors.drop("c")
    with pytest.raises(CheckpointError, match=r"here: a, d, e, f and 1 more not used"):
        tensors.finish()
