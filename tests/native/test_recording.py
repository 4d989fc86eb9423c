"""Recorded passes: the same bits as operations that run at once, however memory is reused."""

import gc
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from draftwalk.ops import Linear
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.quant.q8_0 import FORMATS as Q8_0
from draftwalk.rows import Rows, Rowset
from draftwalk.weights.tensor import pack_tensor
from support.kernels import native, uniform

assert native is not None  # skips where there is no extension
from draftwalk.ops.native import NativeOperations  # noqa: E402
from draftwalk.ops.native.passes import Passes  # noqa: E402

CPU = torch.device("cpu")
H = 64
OPS = NativeOperations(threads=2)
Body = Callable[[Rows, tuple[Tensor, ...]], tuple[Tensor, ...]]


class Owner:
    """Something a key can name."""


def tensor(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(uniform(seed, *shape))


def matrix(seed: int, outputs: int, quantised: bool, inputs: int = H) -> Linear:
    values = uniform(seed, outputs, inputs)
    raw = pack_tensor("m", values, Q8_0 if quantised else F32)
    return Linear(OPS.matrix(raw), tensor(seed + 1, outputs))


WEIGHT = tensor(1, H)
FLOAT, QUANTISED = matrix(2, H, False), matrix(4, H, True)


def rows_of(*sizes: int, wanted: str = "all", context: int = 0) -> Rows:
    sets = [
        Rowset(n, [7 * n + i for i in range(size)], context, wanted)  # type: ignore[arg-type]
        for n, size in enumerate(sizes)
    ]
    return Rows.lay_out(sets, CPU)


def same(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> bool:
    return len(left) == len(right) and all(
        a.shape == b.shape and torch.equal(a.view(torch.int32), b.view(torch.int32))
        for a, b in zip(left, right, strict=True)
    )


def copies(results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(one.clone() for one in results)


def drawn(seed: int, length: int, ops: NativeOperations = OPS) -> Body:
    """A pass of random operations: values live for a while, are used again, and die."""

    def body(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        draw = random.Random(seed)
        alive = list(inputs)
        for _ in range(length):
            x, y = draw.choice(alive), draw.choice(alive)
            one = draw.choice((FLOAT, QUANTISED))
            kind = draw.randrange(6)
            if kind == 0:
                made = [ops.norm(x, WEIGHT, 1e-6, draw.choice((None, y)))]
            elif kind == 1:
                made = list(ops.linear(x, (one, QUANTISED)))
            elif kind == 2:
                made = [ops.linear_residual(x, one, y)]
            elif kind == 3:
                made = [ops.gated(x, one, QUANTISED, draw.choice(("silu", "gelu_tanh")))]
            elif kind == 4:
                made = [ops.linear(ops.join([x, y]), (WIDE,))[0]]
            else:
                made = [ops.norm(ops.gather(x, rows.tokens), WEIGHT, 1e-6)]
            alive += made
            while len(alive) > draw.randrange(2, 7):
                del alive[draw.randrange(len(alive))]
            del x, y, made
        return tuple(alive)

    return body


WIDE = matrix(6, H, True, 2 * H)


@pytest.mark.parametrize("seed", range(12))
def test_reused_memory_changes_nothing(seed: int) -> None:
    """A value's memory is reused as soon as it is gone, its companion's too."""
    length = 25
    rows = Rows.lay_out([Rowset(0, [3, 0, 2, 4, 1, 0], 0)], CPU)
    inputs = tensor(seed + 50, 6, H), tensor(seed + 51, 6, H)
    body = drawn(seed, length)
    at_once = copies(body(rows, inputs))
    owner = Owner()
    for _ in range(3):
        assert same(OPS.run((owner,), rows, inputs, body), at_once)


def test_every_replay_reads_the_new_numbers() -> None:
    owner = Owner()
    body = drawn(3, 10)
    for seed in range(5):
        tokens = [int(n) for n in np.random.default_rng(seed).integers(0, 5, 5)]
        rows = Rows.lay_out([Rowset(0, tokens, seed)], CPU)
        inputs = (tensor(seed, 5, H),)
        wanted = copies(body(rows, inputs))
        assert same(OPS.run((owner,), rows, inputs, body), wanted)
    assert recordings(OPS, owner) == 1


def recordings(ops: NativeOperations, owner: object) -> int:
    return sum(any(part is not None and part() is owner for part in key) for key in keys(ops))


def keys(ops: NativeOperations) -> list[tuple[Callable[[], object], ...]]:
    passes = ops._passes
    return [tuple(one for one in key if callable(one)) for key, _ in passes._recordings]


def test_each_shape_is_recorded_once() -> None:
    owner = Owner()
    count = 0

    def body(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        nonlocal count
        count += 1
        x = OPS.norm(inputs[0], WEIGHT, 1e-6)
        return (OPS.gather(x, rows.wanted), x)

    for sizes, wanted in [((3,), "all"), ((3,), "last"), ((1, 2), "all"), ((5,), "none")] * 3:
        rows = rows_of(*sizes, wanted=wanted)
        x = tensor(sum(sizes), rows.size, H)
        chosen, whole = OPS.run((owner,), rows, (x,), body)
        assert chosen.shape == (rows.shape[2], H)
        assert torch.equal(chosen, whole[rows.wanted])
        assert same((whole,), (OPS.norm(x, WEIGHT, 1e-6),))
    assert recordings(OPS, owner) == 4
    assert count == 5  # what is returned is known after the first


def test_a_body_that_fails_leaves_nothing_reserved() -> None:
    ops = NativeOperations(threads=1)

    def fails(_rows: Rows, _inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        raise ValueError("no")

    for owner in (Owner(), Owner()):
        with pytest.raises(ValueError, match="no"):
            ops.run((owner, "x"), rows_of(2), (tensor(3, 2, H),), fails)
    assert not ops._passes._families


def test_results_stay_until_the_next_run_with_the_key() -> None:
    first, second = Owner(), Owner()
    rows, x = rows_of(4), tensor(9, 4, H)
    body = drawn(5, 12)
    (kept, *_) = OPS.run((first, "a"), rows, (x,), body)
    before = kept.clone()
    for n in range(3):
        OPS.run((first, "b"), rows, (tensor(n, 4, H),), body)
        OPS.run((second, "a"), rows_of(4 + n), (tensor(n, 4 + n, H),), body)
        OPS.norm(x, WEIGHT, 1e-6)
    assert torch.equal(kept, before)


def test_what_is_returned_twice_or_unchanged_is_right() -> None:
    rows, x = rows_of(3), tensor(2, 3, H)

    def body(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        y = OPS.norm(inputs[0], WEIGHT, 1e-6)
        return inputs[0], y, y, WEIGHT

    owner, other = Owner(), Owner()
    got = OPS.run((owner,), rows, (x,), body)
    OPS.run((other,), rows_of(9), (tensor(3, 9, H),), drawn(1, 9))
    wanted = OPS.norm(x, WEIGHT, 1e-6)
    assert same(got, (x, wanted, wanted, WEIGHT))


def test_a_pass_without_wanted_rows_has_no_logits() -> None:
    owner = Owner()

    def body(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = OPS.norm(OPS.gather(inputs[0], rows.wanted), WEIGHT, 1e-6)
        return (OPS.head(x, QUANTISED.matrix),)

    for _ in range(2):
        (logits,) = OPS.run((owner,), rows_of(3, wanted="none"), (tensor(2, 3, H),), body)
        assert logits.shape == (0, H)


def test_embeddings_of_the_pass_itself() -> None:
    owner, table = Owner(), matrix(8, 10, True).matrix

    def body(rows: Rows, _inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (OPS.embed(table, rows, 0.5),)

    for seed, tokens in enumerate(([1, -1, 9], [-2, -1, 3], [0, 1, 2])):
        given = tensor(20 + seed, 2, H)
        rows = Rows.lay_out([Rowset(0, tokens, 0)], CPU, given)
        wanted = copies((OPS.embed(table, rows, 0.5),))
        assert same(OPS.run((owner,), rows, (), body), wanted)
        for n, token in enumerate(tokens):
            if token < 0:
                assert torch.equal(wanted[0][n], given[-1 - token])


def test_a_body_that_fails_leaves_nothing_behind() -> None:
    ops, owner, rows, x = NativeOperations(), Owner(), rows_of(3), tensor(2, 3, H)

    def failing(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        y = ops.norm(inputs[0], WEIGHT, 1e-6)
        ops.linear(y, (QUANTISED,))
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            ops.run((owner,), rows, (x,), failing)
    gc.collect()
    assert ops._passes._scratch.in_use == 0
    body = drawn(4, 10, ops)
    wanted = copies(body(rows, (x,)))
    assert same(ops.run((owner,), rows, (x,), body), wanted)
    assert ops._passes._scratch.in_use == 0


def test_recordings_are_bounded_and_the_oldest_goes_first() -> None:
    ops, owner = NativeOperations(), Owner()
    ops._passes = Passes(ops._runtime, most=3)
    recorded: list[int] = []

    def body(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        recorded.append(rows.size)
        return (ops.norm(inputs[0], WEIGHT, 1e-6),)

    for size in (1, 2, 3, 1, 4, 1, 2):  # 2 is the one that was used least recently when 4 comes
        x = tensor(size, size, H)
        assert same(ops.run((owner,), rows_of(size), (x,), body), (OPS.norm(x, WEIGHT, 1e-6),))
        assert len(ops._passes) <= 3
    assert recorded == [1, 1, 2, 3, 4, 2]


def test_recordings_of_what_is_gone_are_dropped() -> None:
    ops, stays = NativeOperations(), Owner()
    rows, x = rows_of(2), tensor(2, 2, H)

    def body(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (ops.norm(inputs[0], WEIGHT, 1e-6),)

    for _ in range(5):
        ops.run((stays, Owner()), rows, (x,), body)
        gc.collect()
    assert len(ops._passes) == 1


def test_weights_live_as_long_as_a_recording_reads_them() -> None:
    ops, owner = NativeOperations(), Owner()
    rows, x = rows_of(2), tensor(2, 2, H)
    weights = [(matrix(30, H, True), tensor(31, H))]

    def body(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        ((linear, weight),) = weights
        return ops.linear(ops.norm(inputs[0], weight, 1e-6), (linear,))

    wanted = copies(ops.run((owner,), rows, (x,), body))
    weights.clear()
    gc.collect()
    _ = [torch.full((H,), 1e9) for _ in range(100)]  # likely where the weights were
    assert same(ops.run((owner,), rows, (x,), body), wanted)


def test_a_pass_tells_the_time_of_its_calls() -> None:
    owner, rows, x = Owner(), rows_of(2), tensor(2, 2, H)
    times = OPS.times((owner,), rows, (x,), lambda r, i: OPS.linear(i[0], (QUANTISED, FLOAT)))
    assert [name for name, _ in times] == ["quantise", "linear"]
    fused = OPS.times(
        (owner, "fused"),
        rows,
        (x,),
        lambda r, i: OPS.linear(OPS.norm(i[0], WEIGHT, 1e-6), (QUANTISED,)),
    )
    assert [name for name, _ in fused] == ["norm", "linear"]


@pytest.mark.parametrize("linear", [FLOAT, QUANTISED], ids=["float", "quantised"])
def test_what_only_its_companion_is_read_of_is_not_written(linear: Linear) -> None:
    owner, rows, x = Owner(), rows_of(2), tensor(2, 2, H)
    places = []

    def body(rows: Rows, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        u = OPS.norm(inputs[0], WEIGHT, 1e-6)
        places.append(u.data_ptr())
        return OPS.linear(u, (linear,))

    wanted = copies(OPS.run((owner,), rows, (x,), body))
    memory = native.tensor(places[-1], 2 * H, OPS)
    memory.fill_(77.0)
    assert same(OPS.run((owner,), rows, (x,), body), wanted)
    assert bool((memory == 77.0).all()) == (linear is QUANTISED)
