"""Drafters on the native back end: packed as stored, with sinks, and K/V of their own type."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.load import build_drafter
from draftwalk.models import open_model
from draftwalk.ops.memory import KVType
from draftwalk.quant import PackingFormat, formats_by_name
from draftwalk.quant.integers import I64
from draftwalk.target.load import build_target
from draftwalk.weights import RawTensor, pack_integers, pack_tensor
from support.drafts import fed, proposals
from support.gguf_drafters import floats
from support.models import FIXTURES, MadeCheckpoint, drafter_checkpoint, target

native = pytest.importorskip("draftwalk.ops.native")
matrices = pytest.importorskip("draftwalk.ops.native.matrix")


class Counting(native.NativeOperations):  # type: ignore[misc, name-defined]
    """Remembers how matrices were packed."""

    def __init__(self, kv: KVType = "f16") -> None:
        super().__init__(2, kv=kv)
        self.packed: dict[str, bool] = {}

    def matrix(self, raw: RawTensor) -> matrices.NativeMatrix:  # type: ignore[name-defined]
        made = super().matrix(raw)
        self.packed[raw.name] = made.quantised
        return made


def quantised(made: MadeCheckpoint, name: str) -> MadeCheckpoint:
    """The checkpoint with every matrix in a format whose blocks divide it."""
    into = formats_by_name()[name]
    assert isinstance(into, PackingFormat)
    tensors = dict(made.tensors)
    for key, raw in made.tensors.items():
        if len(raw.shape) == 2:
            assert raw.shape[1] % into.BLOCK == 0, key
            tensors[key] = pack_tensor(key, raw.unpack(), into)
    return replace(made, tensors=tensors)


def wide(selector: bool) -> MadeCheckpoint:
    """Sizes that blocks of 32 divide, for a target of 64."""
    made = drafter_checkpoint(160, 64, (0, 1), selector, mlp=64)
    tensors = dict(made.tensors)
    if selector:
        for side in ("predecessor", "successor"):
            name = f"candidate_selector.{side}_codebook"
            tensors[name] = floats(name, 160, 32)
        name = "candidate_selector.hidden_projection.weight"
        tensors[name] = floats(name, 32, 64)
    own = {**made.config["dflash_config"]}  # type: ignore[dict-item]
    if selector:
        own["selector_rank"] = 32
    return replace(made, tensors=tensors, config={**made.config, "dflash_config": own})


def table_rows() -> RawTensor:
    values = floats("table", 160, 64).unpack() * np.float32(0.2)
    return pack_tensor("table", values, formats_by_name()["Q8_0"])  # type: ignore[arg-type]


def tables(ops: native.NativeOperations):  # type: ignore[no-untyped-def, name-defined]
    from draftwalk.target import SharedTables, rows_of

    raw = table_rows()
    table = ops.matrix(raw)
    return SharedTables(table, table, rows_of(raw, ops))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
@pytest.mark.parametrize("selector", [True, False])
def test_quantised_matrices_stay_what_they_are(name: str, selector: bool) -> None:
    ops = Counting()
    made = quantised(wide(selector), name)
    shared = tables(ops)
    drafter = build_drafter(made, ops, shared, 2, 100, range(3, 99, 2))
    matrices_of = {key for key, raw in made.tensors.items() if len(raw.shape) == 2}
    assert matrices_of <= ops.packed.keys()
    assert all(ops.packed.values()), "nothing was unpacked, the rows of the head included"
    assert all(len(draft.tokens) == 5 for draft in proposals(fed(drafter, 64)))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q5_1", "F32"])
@pytest.mark.parametrize("selector", [True, False])
def test_listed_rows_of_the_target_are_no_wider_than_the_drafter(name: str, selector: bool) -> None:
    """The target's head is Q8_0; a head of the drafter's own says what is expected."""
    listed = [*range(3, 99, 2)]
    made = quantised(wide(selector), name)
    ops = native.NativeOperations(2)
    borrowing = build_drafter(made, ops, tables(ops), 2, 100, listed)
    rows = table_rows().unpack()[listed]
    kind = formats_by_name()["Q8_0" if name == "F32" else name]
    assert isinstance(kind, PackingFormat)
    own = {
        "lm_head.weight": pack_tensor("lm_head.weight", rows, kind),
        "d2t": pack_integers("d2t", np.array(listed) - np.arange(len(listed)), I64()),
    }
    config = {**made.config, "draft_vocab_size": len(listed)}
    with_head = replace(made, tensors={**made.tensors, **own}, config=config)
    owning = build_drafter(with_head, ops, tables(ops), 2, 100)
    for one, other in zip(proposals(fed(borrowing, 64)), proposals(fed(owning, 64)), strict=True):
        assert one.tokens == other.tokens
        assert one.confidence == other.confidence


def test_k_quants_stay_what_they_are() -> None:
    ops = Counting()
    for name in ("Q4_K", "Q5_K", "Q6_K"):
        into = formats_by_name()[name]
        assert isinstance(into, PackingFormat)
        assert ops.matrix(pack_tensor(name, floats(name, 32, 256).unpack(), into)).quantised


@pytest.mark.parametrize("selector", [True, False])
def test_sinks(selector: bool) -> None:
    made = drafter_checkpoint(160, 48, (0, 1), selector)
    sinks = {f"layers.{n}.self_attn.sinks": floats("", 2, seed=n) for n in (0, 1)}
    with_sinks = replace(
        made,
        tensors={**made.tensors, **sinks},
        config={**made.config, "attention_sink_bias": True},
    )
    model = build_target(open_model(FIXTURES / "targets" / "llama"), native.NativeOperations(2))
    reference = target("llama")
    drafts = {
        key: [
            proposals(fed(build_drafter(one, of.ops, of.tables, of.depth, 512)))
            for of in (model, reference)
        ]
        for key, one in (("with", with_sinks), ("without", made))
    }
    for got, wanted in drafts.values():
        for one, other in zip(got, wanted, strict=True):
            assert one.tokens == other.tokens
            assert one.confidence == pytest.approx(other.confidence, abs=1e-2)
    alike = [
        one.confidence == pytest.approx(other.confidence, abs=1e-2)
        for one, other in zip(drafts["with"][0], drafts["without"][0], strict=True)
    ]
    assert not all(alike), "they matter"


def heads_of_32(selector: bool) -> MadeCheckpoint:
    made = drafter_checkpoint(160, 48, (0, 1), selector)
    tensors = dict(made.tensors)
    shapes = {"q_proj": (64, 48), "k_proj": (32, 48), "v_proj": (32, 48), "o_proj": (48, 64)}
    for layer in (0, 1):
        for part, shape in shapes.items():
            name = f"layers.{layer}.self_attn.{part}.weight"
            values = floats(name, *shape).unpack() * np.float32(0.2)
            tensors[name] = replace(floats(name, *shape), data=values.view(np.uint8).reshape(-1))
        for part in ("q_norm", "k_norm"):
            name = f"layers.{layer}.self_attn.{part}.weight"
            tensors[name] = floats(name, 32)
    return replace(made, tensors=tensors, config={**made.config, "head_dim": 32})


def kv_bytes(drafter: BlockDrafter) -> int:
    fed(drafter)
    return drafter.state.bytes


def test_the_drafter_s_kv_have_a_type_of_their_own() -> None:
    model = build_target(open_model(FIXTURES / "targets" / "llama"), native.NativeOperations(2))

    def build(kv: KVType | None) -> BlockDrafter:
        one = heads_of_32(selector=True)
        return build_drafter(one, model.ops, model.tables, model.depth, 512, kv=kv)

    kinds: tuple[KVType | None, ...] = (None, "f16", "q8")
    sizes = {kv: kv_bytes(build(kv)) for kv in kinds}
    assert sizes[None] == sizes["f16"]
    # 32 values of two bytes, against 32 bytes and a scale of four.
    assert sizes["q8"] * 64 == sizes["f16"] * 36
    sure = {kv: [draft.confidence for draft in proposals(fed(build(kv)))] for kv in kinds}
    assert sure[None] == sure["f16"]
    assert sure["q8"] != sure["f16"]
    first = {kv: np.array([one[0] for one in values]) for kv, values in sure.items()}
    assert np.abs(first["q8"] - first["f16"]).max() < 0.1


def test_a_file_s_tables_are_read_by_row(tmp_path: Path) -> None:
    """Selector tables of any format give the reference's scores."""
    for name in ("F16", "BF16", "Q8_0", "Q5_1"):
        made = quantised(wide(selector=True), name)
        ops = native.NativeOperations(2)
        drafter = build_drafter(made, ops, tables(ops), 2, 100)
        assert all(torch.tensor(d.confidence).isfinite().all() for d in proposals(fed(drafter, 64)))
