"""Threads, programs, memory at fixed addresses, and pages of K/V."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kernels import Whole, address, below, native, same_bits, uniform

ROWS, WIDTH = 40, 48
WEIGHT = uniform(2, WIDTH)


def norms(program: object, times: int, x: np.ndarray, outs: Sequence[np.ndarray]) -> None:
    """Every norm of the result of the one before it."""
    for out in outs[:times]:
        native.norm(program, address(x), address(WEIGHT), 0, address(out), ROWS, WIDTH, 1e-6)
        x = out


def expected(times: int) -> list[np.ndarray]:
    x, outs = uniform(1, ROWS, WIDTH), [np.zeros((ROWS, WIDTH), np.float32) for _ in range(times)]
    program = native.Program(native.Runtime(1, "scalar"))
    norms(program, times, x, outs)
    program.replay()
    return outs


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_calls_run_in_order_on_any_number_of_threads(threads: int) -> None:
    runtime = native.Runtime(threads, native.instruction_sets()[0])
    assert (runtime.threads, runtime.instruction_set) == (threads, native.instruction_sets()[0])
    x, outs = uniform(1, ROWS, WIDTH), [np.zeros((ROWS, WIDTH), np.float32) for _ in range(50)]
    program = native.Program(runtime)
    norms(program, 50, x, outs)
    assert len(program) == 50
    wanted = expected(50)
    for pause in (0.0, 0.0, 0.002, 0.0):  # long enough for the workers to fall asleep
        for out in outs:
            out[:] = 0
        time.sleep(pause)
        program.replay()
        assert all(same_bits(out, one) for out, one in zip(outs, wanted, strict=True))


def test_several_programs_share_a_runtime_between_callers() -> None:
    runtime = native.Runtime(2, "scalar")
    wanted = expected(20)
    wrong: list[int] = []

    def call(number: int) -> None:
        outs = [np.zeros((ROWS, WIDTH), np.float32) for _ in range(20)]
        program = native.Program(runtime)
        x = uniform(1, ROWS, WIDTH)
        norms(program, 20, x, outs)
        for _ in range(30):
            program.replay()
        if not all(same_bits(out, one) for out, one in zip(outs, wanted, strict=True)):
            wrong.append(number)

    callers = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not any(caller.is_alive() for caller in callers)
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("pause", [0.0, 0.01])  # workers spin, or sleep
def test_a_forked_child_computes_alone_and_ends(pause: float) -> None:
    outs = [np.zeros((ROWS, WIDTH), np.float32) for _ in range(3)]
    x = uniform(1, ROWS, WIDTH)
    runtime = native.Runtime(3, "scalar")
    program = native.Program(runtime)
    norms(program, 3, x, outs)
    program.replay()
    time.sleep(pause)
    child = os.fork()
    if child == 0:
        for out in outs:
            out[:] = 0
        program.replay()
        same = all(same_bits(out, one) for out, one in zip(outs, expected(3), strict=True))
        del program, runtime  # waits for no thread, since the child has none
        os._exit(0 if same else 1)
    until = time.monotonic() + 60
    done, status = 0, 0
    while done == 0 and time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if done == 0:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert done == child
    assert os.waitstatus_to_exitcode(status) == 0


def test_threads_end_with_their_runtime() -> None:
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        pytest.skip("threads cannot be counted here")

    def running() -> int:
        return len([*tasks.iterdir()])

    before = running()
    runtime = native.Runtime(5, "scalar")
    assert running() == before + 4
    del runtime
    assert running() == before


def test_instruction_sets_are_known_by_name() -> None:
    assert native.instruction_sets()[-1] == "scalar"
    with pytest.raises(ValueError, match="mmx"):
        native.Runtime(1, "mmx")


# ---- programs ------------------------------------------------------------------------------------


def test_a_program_tells_the_time_of_each_call() -> None:
    outs = [np.zeros((ROWS, WIDTH), np.float32) for _ in range(2)]
    x = uniform(1, ROWS, WIDTH)
    for threads in (1, 2):
        program = native.Program(native.Runtime(threads, "scalar"))
        norms(program, 2, x, outs)
        index = np.arange(3)
        some = np.zeros((3, WIDTH), np.float32)
        native.gather(program, address(outs[1]), address(index), address(some), 3, WIDTH)
        names, seconds = zip(*program.replay_timed(), strict=True)
        assert names == ("norm", "norm", "gather")
        assert all(0 <= one < 10 for one in seconds)
        assert same_bits(some, expected(2)[1][:3])
        program.clear()
        assert program.replay_timed() == []


def test_only_a_call_that_can_quantise_is_told_to() -> None:
    x, out = uniform(1, 2, 32), np.zeros((2, 32), np.float32)
    program = native.Program(native.Runtime(1, "scalar"))
    index = np.arange(2)
    call = native.gather(program, address(x), address(index), address(out), 2, 32)
    with pytest.raises(RuntimeError, match="quantise"):
        program.quantise(call, address(out), 2, 32)
    with pytest.raises(RuntimeError, match="nothing"):
        program.only_quantise(call)
    with pytest.raises(IndexError):
        program.quantise(7, address(out), 2, 32)


# ---- memory --------------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.integers(0, 5000), st.just("release")), max_size=80), st.randoms())
def test_what_an_arena_hands_out_never_overlaps(asked, random) -> None:  # type: ignore[no-untyped-def]
    arena = native.Arena(1 << 24)
    taken: dict[int, int] = {}
    for one in asked:
        if one == "release":
            if taken:
                place = random.choice(list(taken))
                del taken[place]
                arena.release(place)
            continue
        place = arena.allocate(one)
        assert place % 64 == 0
        assert arena.start <= place
        assert place + one <= arena.start + arena.size
        for other, size in taken.items():
            assert place + max(one, 1) <= other or other + max(size, 1) <= place
        taken[place] = one
        assert arena.in_use >= sum(taken.values())
    for place in taken:
        arena.release(place)
    assert arena.in_use == 0
    assert arena.allocate(arena.size) == arena.start  # all gaps have grown together


def test_an_arena_takes_the_smallest_gap() -> None:
    arena = native.Arena(1 << 20)
    large, _, small, _ = (arena.allocate(size) for size in (640, 64, 192, 64))
    arena.release(large)
    arena.release(small)
    assert arena.allocate(128) == small
    assert arena.allocate(320) == large
    most = arena.most
    arena.reset()
    assert (arena.in_use, arena.allocate(64)) == (0, large)
    assert arena.most == most


def test_an_arena_refuses_what_it_does_not_have() -> None:
    arena = native.Arena(1 << 20)
    with pytest.raises(MemoryError):
        arena.allocate(1 << 21)
    place = arena.allocate(10)
    with pytest.raises(RuntimeError):
        arena.release(place + 64)
    arena.release(place)
    with pytest.raises(RuntimeError):
        arena.release(place)


def test_tensors_keep_their_arena() -> None:
    arena = native.Arena(1 << 20)
    tensor = native.tensor(arena.allocate(4000), 1000, arena)
    del arena
    tensor.fill_(3.0)
    assert tensor.sum() == 3000


# ---- pages ---------------------------------------------------------------------------------------


def filled(pages: object, number: int, layers: int) -> Whole:
    """Writes numbers of its own to a page, and returns them."""
    size = pages.page_bytes  # type: ignore[attr-defined]
    values = below(number + 1, 256, layers, 1, size).astype(np.uint8)
    pages.write([number], address(values))  # type: ignore[attr-defined]
    return values


@pytest.mark.parametrize(("kind", "size"), [("f16", 2 * 64 * 64 * 2), ("q8", 2 * 64 * (64 + 8))])
def test_pages_keep_their_contents_while_a_pool_grows(kind: str, size: int) -> None:
    layers = 3
    pages = native.Pages(kind, layers, 2, 64)
    where = pages.address
    assert (pages.count, pages.bytes, pages.page_bytes) == (0, 0, 2 * size)
    written: dict[int, Whole] = {}
    for count in (1, 2, 40, 41, 300):
        pages.grow(count)
        assert (pages.count, pages.bytes) == (count, count * layers * 2 * size)
        fresh = np.ones((layers, 1, 2 * size), np.uint8)
        pages.read([count - 1], address(fresh))
        assert not fresh.any()
        written[count - 1] = filled(pages, count - 1, layers)
        numbers = sorted(written, reverse=True)
        saved = np.zeros((layers, len(numbers), 2 * size), np.uint8)
        pages.read(numbers, address(saved))
        for n, number in enumerate(numbers):
            assert (saved[:, n : n + 1] == written[number]).all()
    pages.grow(5)  # never shrinks
    assert (pages.count, pages.address) == (300, where)


def test_a_page_is_copied_in_every_layer() -> None:
    pages = native.Pages("f16", 2, 1, 16)
    pages.grow(3)
    values = filled(pages, 2, 2)
    pages.copy(2, 0)
    found = np.zeros((2, 3, pages.page_bytes), np.uint8)
    pages.read([0, 1, 2], address(found))
    assert (found[:, :1] == values).all()
    assert not found[:, 1].any()


def test_pages_that_are_not_there_are_refused() -> None:
    pages = native.Pages("f16", 1, 1, 16)
    pages.grow(1)
    buffer = np.zeros(pages.page_bytes, np.uint8)
    for call in (
        lambda: pages.copy(0, 1),
        lambda: pages.copy(-1, 0),
        lambda: pages.read([1], address(buffer)),
        lambda: pages.write([0, -1], address(buffer)),
    ):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(ValueError, match="f16 or q8"):
        native.Pages("f32", 1, 1, 16)
    with pytest.raises(ValueError, match="groups of 32"):
        native.Pages("q8", 1, 1, 48)
