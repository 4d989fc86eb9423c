"""Whole models on the native back end: near the torch one, and the same bits in any company."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from draftwalk.draft import DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.load import build_drafter
from draftwalk.draft.none import EmptyDrafter
from draftwalk.errors import RollbackError, UserError
from draftwalk.loop import Loop
from draftwalk.models import open_model
from draftwalk.ops import Operations
from draftwalk.ops.memory import KVType
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.rows import Rows, Rowset
from draftwalk.sequence import Request
from draftwalk.settings import Limits, Sampling
from draftwalk.state import pass_over
from draftwalk.state.attention import AttentionState
from draftwalk.target.decoder import Decoder
from draftwalk.target.load import build_target
from draftwalk.verify.noise import Noise
from draftwalk.weights import pack_tensor
from support.kernels import native, uniform
from support.models import DOUBLE, FIXTURES, MadeCheckpoint, drafter_checkpoint, target

assert native is not None  # skips where there is no extension
from draftwalk.ops.native import NativeOperations  # noqa: E402

CPU = torch.device("cpu")
TARGETS = sorted(path.name for path in (FIXTURES / "targets").iterdir() if path.is_dir())
IDS = [(7 * n * n + 3) % 160 for n in range(90)]


@cache
def decoder(name: str, threads: int = 2, kv: KVType = "f16", best: bool = True) -> Decoder:
    instruction_set = None if best else "scalar"
    ops = NativeOperations(threads, instruction_set, kv)
    return build_target(open_model(FIXTURES / "targets" / name), ops)


def drafter_of(decoder: Decoder, selector: bool, causal: bool | None = None) -> BlockDrafter:
    size, width = decoder.vocabulary, decoder.width
    checkpoint = drafter_checkpoint(size, width, (0, 1), selector, causal=causal)
    return build_drafter(checkpoint, decoder.ops, decoder.tables, decoder.depth, 512)


def hear(decoder: Decoder, drafter: BlockDrafter) -> None:
    """The drafter's slot 0 learns what the target makes of the first 20 ids."""
    state = decoder.new_state()
    state.open(0)
    drafter.state.open(0)
    rows = Rows.lay_out([Rowset(0, IDS[:20], 0, "last")], CPU)
    with pass_over(state, rows) as kept:
        out = decoder.forward(rows, state, drafter.taps)
        kept[0] = 20
    drafter.observe(rows, out.features, {0: 20})


def read(
    decoder: Decoder, state: AttentionState, slot: int, ids: Sequence[int], chunk: int
) -> Tensor:
    """Logits of all rows, read in chunks."""
    logits = []
    for start in range(0, len(ids), chunk):
        part = ids[start : start + chunk]
        rows = Rows.lay_out([Rowset(slot, part, state.length(slot))], CPU)
        with pass_over(state, rows) as kept:
            logits.append(decoder.forward(rows, state, (0,)).logits.clone())
            kept[slot] = len(part)
    return torch.cat(logits)


@pytest.mark.parametrize("name", TARGETS)
def test_logits_are_near_those_in_float64(name: str) -> None:
    ours, theirs = decoder(name), target(name)
    states = ours.new_state(), theirs.new_state()
    for state in states:
        state.open(0)
    got = read(ours, states[0], 0, IDS, 40).double()
    wanted = read(theirs, states[1], 0, IDS, 40)
    assert (got - wanted).abs().max() < 1e-2 * wanted.abs().max()  # K/V are in fp16


@pytest.mark.parametrize("name", TARGETS)
def test_chunks_threads_instruction_sets_and_company_change_no_bit(name: str) -> None:
    one = decoder(name)
    state = one.new_state()
    state.open(0)
    whole = read(one, state, 0, IDS, len(IDS))
    for other, chunk in (
        (one, 1),
        (one, 7),
        (decoder(name, threads=1), 64),
        (decoder(name, threads=3), 16),
        (decoder(name, best=False), 33),
    ):
        state = other.new_state()
        state.open(5)
        assert torch.equal(read(other, state, 5, IDS, chunk), whole), chunk
    state = one.new_state()
    sizes = (30, 3, 1)
    for slot in range(3):
        state.open(slot)
    starts = [0, 0, 0]
    while starts[2] < 6:
        rows = Rows.lay_out(
            [
                Rowset(slot, IDS[starts[slot] : starts[slot] + size], starts[slot])
                for slot, size in enumerate(sizes)
                if starts[slot] < 60
            ],
            CPU,
        )
        with pass_over(state, rows) as kept:
            out = one.forward(rows, state, (0,))
            for span in rows.spans:
                at = starts[span.sequence]
                mine = out.logits[span.start : span.stop]
                assert torch.equal(mine, whole[at : at + span.size])
                kept[span.sequence] = span.size
        for slot, size in kept.items():
            starts[slot] += size


@cache
def wide_heads(ops: Operations) -> Decoder:
    """The recorded llama with heads of 32 values, as 8-bit K/V need them."""
    recorded = open_model(FIXTURES / "targets" / "llama")
    tensors = dict(recorded.tensors)
    for name, raw in recorded.tensors.items():
        if ".self_attn." in name:
            outputs, inputs = raw.shape
            shape = (outputs, 2 * inputs) if "o_proj" in name else (2 * outputs, inputs)
            tensors[name] = pack_tensor(name, uniform(len(tensors), *shape, size=0.3), F32)
    config = {**recorded.config, "head_dim": 32}
    return build_target(MadeCheckpoint(config, tensors), ops)


@cache
def native_operations(kv: KVType) -> NativeOperations:
    return NativeOperations(2, kv=kv)


@pytest.mark.parametrize(("kv", "near"), [("f16", 1e-2), ("q8", 5e-2)])
def test_k_and_v_are_near_in_either_type(kv: KVType, near: float) -> None:
    logits = []
    for one in (wide_heads(native_operations(kv)), wide_heads(DOUBLE)):
        state = one.new_state()
        state.open(0)
        logits.append(read(one, state, 0, IDS, 40).double())
    assert (logits[0] - logits[1]).abs().max() < near * logits[1].abs().max()


@pytest.mark.parametrize("name", ["llama", "gemma3", "f16", "q8"])
def test_a_state_is_saved_forked_and_taken_back(name: str) -> None:
    one = wide_heads(native_operations(name)) if name in ("f16", "q8") else decoder(name)
    state = one.new_state()
    state.open(0)
    whole = read(one, state, 0, IDS, 50)
    fresh = one.new_state()
    fresh.open(0)
    read(one, fresh, 0, IDS[:70], 70)
    saved = fresh.save(0)
    fresh.fork(0, 3)
    assert torch.equal(read(one, fresh, 3, IDS[70:], 20), whole[70:])
    fresh.load(8, saved)
    assert torch.equal(read(one, fresh, 8, IDS[70:], 3), whole[70:])
    back = fresh.truncate(0, 66)
    assert torch.equal(read(one, fresh, 0, IDS[back:], 5), whole[back:])


def test_pages_of_another_kind_do_not_fit() -> None:
    decoders = wide_heads(native_operations("f16")), wide_heads(native_operations("q8"))
    states = [one.new_state() for one in decoders]
    for state in states:
        state.open(0)
    read(decoders[0], states[0], 0, IDS[:5], 5)
    with pytest.raises(RollbackError, match="does not fit"):
        states[1].load(1, states[0].save(0))


def test_heads_that_do_not_come_in_groups_have_no_8_bit_pages() -> None:
    with pytest.raises(UserError, match="multiple of 32"):
        decoder("llama", kv="q8").new_state()


@pytest.mark.parametrize("selector", [False, True], ids=["dflash", "dflash2"])
@pytest.mark.parametrize("name", ["qwen3", "gemma3"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_speculative_text_is_plain_text(name: str, selector: bool, temperature: float) -> None:
    one = decoder(name)
    drafting = Loop(one, drafter_of(one, selector), 400, chunk=17)
    plain = Loop(one, EmptyDrafter(), 400)
    texts = []
    for loop in (drafting, plain):
        requests = [
            Request(
                IDS[n : n + 9 * n + 1],
                Sampling(temperature=temperature, seed=n),
                Limits(max_tokens=40),
            )
            for n in range(1, 5)
        ]
        sequences = [loop.admit(request) for request in requests]
        while loop.busy:
            loop.step()
        texts.append([sequence.generated for sequence in sequences])
        assert all(sequence.error is None for sequence in sequences)
    assert texts[0] == texts[1]
    assert all(len(text) == 40 for text in texts[0])


@pytest.mark.parametrize("selector", [False, True], ids=["dflash", "dflash2"])
def test_a_drafter_is_near_the_one_in_float64(selector: bool) -> None:
    ours, theirs = decoder("qwen3"), target("qwen3")
    found = []
    for one in (ours, theirs):
        drafter = drafter_of(one, selector)
        hear(one, drafter)
        request = DraftRequest(0, IDS[:21], 5, Sampling(), Noise(0))
        found.append([part.double() for part in drafter.draft([request])])
    for got, wanted in zip(*found, strict=True):
        assert (got - wanted).abs().max() <= 5e-3 * wanted.abs().max()


@pytest.mark.parametrize("selector", [False, True], ids=["dflash", "dflash2"])
def test_a_draft_of_fewer_rows_has_the_bits_of_a_longer_one(selector: bool) -> None:
    ours = decoder("qwen3")
    drafter = drafter_of(ours, selector, causal=True)
    hear(ours, drafter)
    whole = DraftRequest(0, IDS[:21], drafter.block - 1, Sampling(), Noise(0))
    (longest,) = drafter.propose([whole])
    outputs = [part.clone() for part in drafter.draft([whole])]
    for limit in range(1, drafter.block):
        (draft,) = drafter.propose([replace(whole, limit=limit)])
        assert (draft.tokens, draft.confidence) == (
            longest.tokens[:limit],
            longest.confidence[:limit],
        )
        shorter = drafter.draft([replace(whole, limit=limit)])
        for part, full in zip(shorter, outputs, strict=True):
            assert len(part) == limit
            assert torch.equal(part, full[:limit])
