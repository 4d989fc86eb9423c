import sys

import pytest
import torch

from draftwalk.errors import UserError
from draftwalk.ops import choice, cores
from draftwalk.ops.choice import chosen, extension_fault, open_operations
from draftwalk.ops.torch import TorchOperations

CPU = torch.device("cpu")
needs_extension = pytest.mark.skipif(extension_fault() is not None, reason="no extension")


@pytest.fixture
def no_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "draftwalk._native", None)
    monkeypatch.setattr(choice, "extension_fault", extension_fault.__wrapped__)


@needs_extension
def test_native_wherever_it_can_be() -> None:
    assert chosen("auto", CPU, torch.float32) == "native"
    assert chosen("native", CPU, torch.float32) == "native"
    for dtype in (torch.float64, torch.bfloat16):
        assert chosen("auto", CPU, dtype) == "torch"
    assert chosen("auto", torch.device("cuda"), torch.float32) == "torch"
    assert chosen("torch", CPU, torch.float32) == "torch"


@pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", torch.float64), ("cuda", torch.float32), ("meta", torch.float16)]
)
def test_native_where_it_cannot_be_is_refused(device: str, dtype: torch.dtype) -> None:
    with pytest.raises(UserError, match="float32 on the cpu"):
        chosen("native", torch.device(device), dtype)


@pytest.mark.usefixtures("no_extension")
def test_without_the_extension_all_is_torch() -> None:
    assert "_native" in str(choice.extension_fault())
    assert chosen("auto", CPU, torch.float32) == "torch"
    assert isinstance(open_operations(CPU, torch.float32), TorchOperations)
    assert choice.instruction_sets() == ()
    with pytest.raises(UserError, match="the native back end cannot be used"):
        open_operations(CPU, torch.float32, "native")


@needs_extension
def test_threads_and_types_reach_the_back_end() -> None:
    from draftwalk.ops.native import NativeOperations

    ops = open_operations(CPU, torch.float32, threads=3, kv="q8")
    assert isinstance(ops, NativeOperations)
    assert (ops.threads, ops.kv) == (3, "q8")
    assert ops.instruction_set == choice.instruction_sets()[0]
    by_itself = open_operations(CPU, torch.float32)
    assert isinstance(by_itself, NativeOperations)
    assert (by_itself.threads, by_itself.kv) == (cores.available_cores(), "f16")


@needs_extension
def test_torch_keeps_to_one_thread_beside_it() -> None:
    from draftwalk.ops.native import NativeOperations

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with NativeOperations().alone():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with TorchOperations(CPU, torch.float32).alone():
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_cores_are_physical_and_within_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pytest.TempPathFactory
) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux says")
    from pathlib import Path

    root = Path(str(tmp_path))
    monkeypatch.setattr(cores, "_CPUS", root)
    monkeypatch.setattr(cores, "_QUOTA", root / "cpu.max")
    for cpu in range(8):
        folder = root / f"cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    assert cores.available_cores() == 4
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 4, 5})
    assert cores.available_cores() == 2
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 2, 3, 11})
    assert cores.available_cores() == 4  # what says nothing of itself is a core of its own
    (root / "cpu.max").write_text("150000 100000\n")
    assert cores.available_cores() == 1
    (root / "cpu.max").write_text("max 100000\n")
    assert cores.available_cores() == 4


def test_torch_has_no_8_bit_memory() -> None:
    with pytest.raises(UserError, match="K/V in q8 are the native back end's"):
        open_operations(CPU, torch.float32, "torch", kv="q8")
