"""Drafters that are written differently and are the same, or look the same and are not."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.dflash import DFlash
from draftwalk.draft.dflash2 import DFlash2
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.rows import Rows, Rowset
from draftwalk.settings import Sampling
from draftwalk.verify.noise import Noise
from draftwalk.weights import pack_tensor
from support.models import (
    CPU,
    MadeCheckpoint,
    drafter_checkpoint,
    hidden_rows,
    random_drafter,
    target,
)

Change = Callable[[NDArray[np.float32]], NDArray[np.float32]]
HEAD_DIM, ROWS = 16, 9


def made(selector: bool = True) -> MadeCheckpoint:
    types = ("sliding_attention", "full_attention")
    return drafter_checkpoint(160, 48, (0, 2), selector, layer_types=types)


def with_tensors(checkpoint: MadeCheckpoint, changes: Mapping[str, Change]) -> MadeCheckpoint:
    """The checkpoint with every tensor changed whose name ends with a key."""
    tensors = dict(checkpoint.tensors)
    for end, change in changes.items():
        names = [name for name in tensors if name.endswith(end)]
        assert names, end
        for name in names:
            tensors[name] = pack_tensor(name, change(tensors[name].unpack()), F32)
    return replace(checkpoint, tensors=tensors)


def with_config(checkpoint: MadeCheckpoint, **changes: object) -> MadeCheckpoint:
    config: dict[str, Any] = copy.deepcopy(dict(checkpoint.config))
    config["dflash_config"].update(changes)
    return replace(checkpoint, config=config)


def fed(checkpoint: MadeCheckpoint) -> BlockDrafter:
    """The drafter after a few rows of random features in two slots."""
    drafter = random_drafter(checkpoint, target("llama-rope3"))
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(2 * ROWS, 2 * 48, generator=draw, dtype=torch.float64)
    for slot in (0, 1):
        drafter.state.open(slot)
    rows = Rows.lay_out([Rowset(slot, [0] * ROWS, 0) for slot in (0, 1)], CPU)
    drafter.observe(rows, features, {0: ROWS, 1: ROWS})
    return drafter


def requests(sampling: Sampling | None = None) -> list[DraftRequest]:
    histories = ([5] * ROWS + [7], [6] * ROWS + [99])
    return [
        DraftRequest(slot, history, 5, sampling or Sampling(), Noise(4))
        for slot, history in enumerate(histories)
    ]


def hidden(checkpoint: MadeCheckpoint) -> Tensor:
    return hidden_rows(fed(checkpoint), requests())


def drafts(checkpoint: MadeCheckpoint) -> list[Draft]:
    drafter = fed(checkpoint)
    return [
        *drafter.propose(requests()),
        *drafter.propose(requests(Sampling(temperature=0.9))),
        *drafter.propose(requests(Sampling(temperature=0.9, rule="rejection"))),
    ]


def tokens(checkpoint: MadeCheckpoint) -> list[tuple[int, ...]]:
    return [draft.tokens for draft in drafts(checkpoint)]


def identity_kernel(base: NDArray[np.float32]) -> NDArray[np.float32]:
    base = np.zeros_like(base)
    base[:, 0] = 1
    return base


def test_identity_convolutions_leave_dflash() -> None:
    """With tap 0 alone at 1, the backbone is DFlash's."""
    second = with_tensors(
        made(), {"base_kernel": identity_kernel, "kernel_projection.weight": np.zeros_like}
    )
    names = [name for name in second.tensors if "_conv." not in name and "selector" not in name]
    keys = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
    first = with_config(
        replace(second, tensors={name: second.tensors[name] for name in names}),
        **dict.fromkeys(keys),
    )
    assert isinstance(fed(first), DFlash)
    assert isinstance(fed(second), DFlash2)
    assert torch.equal(hidden(first), hidden(second))
    assert not torch.allclose(hidden(made()), hidden(second))


def test_the_order_of_convolution_taps_matters() -> None:
    flipped = with_tensors(made(), {"base_kernel": lambda base: base[:, ::-1].copy()})
    assert not torch.allclose(hidden(made()), hidden(flipped))
    swapped = with_tensors(made(), {"base_kernel": lambda base: base[::-1].copy()})
    assert not torch.allclose(hidden(made()), hidden(swapped))


def test_the_order_of_target_layers_matters() -> None:
    """Features are joined as listed; the same network with both turned round is the same."""

    def turned(fc: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.concatenate([fc[:, 48:], fc[:, :48]], axis=1)

    assert not torch.allclose(hidden(made()), hidden(with_tensors(made(), {"fc.weight": turned})))


def to_interleaved(heads: int) -> Change:
    """From half-split heads to adjacent pairs: element i of the first half goes to row 2i."""

    def change(values: NDArray[np.float32]) -> NDArray[np.float32]:
        halves = values.reshape(heads, 2, HEAD_DIM // 2, -1)
        return halves.transpose(0, 2, 1, 3).reshape(values.shape).copy()

    return change


@pytest.mark.parametrize("key", ["is_neox_style", "rope_is_neox_style"])
def test_interleaved_rope_is_half_split_rope_of_permuted_heads(key: str) -> None:
    plain = made(selector=False)
    stored = with_tensors(
        plain,
        {
            "q_proj.weight": to_interleaved(2),
            "k_proj.weight": to_interleaved(1),
            "q_norm.weight": to_interleaved(1),
            "k_norm.weight": to_interleaved(1),
        },
    )
    marked = replace(stored, config={**stored.config, key: False})
    assert torch.equal(hidden(marked), hidden(plain))
    assert tokens(marked) == tokens(plain)
    assert not torch.allclose(hidden(stored), hidden(plain)), "the key is what tells"


def test_interleaved_biases_are_permuted_as_well() -> None:
    rng = np.random.default_rng(5)
    plain = made(selector=False)
    sizes = {"q_proj": 32, "k_proj": 16, "v_proj": 16, "o_proj": 48}
    tensors = dict(plain.tensors)
    for layer in (0, 1):
        for name, size in sizes.items():
            bias = rng.standard_normal(size).astype(np.float32)
            full = f"layers.{layer}.self_attn.{name}.bias"
            tensors[full] = pack_tensor(full, bias, F32)
    biased = replace(plain, tensors=tensors, config={**plain.config, "attention_bias": True})
    ends = ("q_proj.weight", "k_proj.weight", "q_norm.weight", "k_norm.weight")
    heads = {"q_proj.weight": 2, "q_proj.bias": 2}
    changes = {
        end: to_interleaved(heads.get(end, 1)) for end in (*ends, "q_proj.bias", "k_proj.bias")
    }
    stored = with_tensors(biased, changes)
    marked = replace(stored, config={**stored.config, "is_neox_style": False})
    assert torch.equal(hidden(marked), hidden(biased))
    assert not torch.allclose(hidden(biased), hidden(plain))


def test_without_transitions_every_row_takes_its_own_best() -> None:
    for side in ("predecessor_codebook", "successor_codebook", "hidden_projection.weight"):
        independent = with_tensors(made(), {side: np.zeros_like})
        drafter = fed(independent)
        logits = drafter.logits(hidden_rows(drafter, requests()))
        best = logits.argmax(-1).view(2, -1)
        assert [list(draft.tokens) for draft in drafter.propose(requests())] == best.tolist()
        assert tokens(independent) != tokens(made()), "the tables matter"


def test_one_candidate_leaves_no_choice() -> None:
    narrow = with_config(made(), selector_top_k=1)
    drafter = fed(narrow)
    best = drafter.logits(hidden_rows(drafter, requests())).argmax(-1).view(2, -1).tolist()
    for sampling in (Sampling(), Sampling(temperature=2.0), Sampling(1.0, rule="rejection")):
        for draft, row in zip(drafter.propose(requests(sampling)), best, strict=True):
            assert list(draft.tokens) == row
            assert draft.confidence == (1.0,) * 5


def test_the_walk_is_the_one_without_a_lattice() -> None:
    """Token by token: the score of a candidate after the token that was really taken."""
    checkpoint = made()
    drafter = fed(checkpoint)
    rows = hidden_rows(drafter, requests())
    table = {
        side: torch.from_numpy(
            checkpoint.tensors[f"candidate_selector.{side}_codebook"].unpack()
        ).double()
        for side in ("predecessor", "successor")
    }
    gate = torch.from_numpy(
        checkpoint.tensors["candidate_selector.hidden_projection.weight"].unpack()
    ).double()
    logits = drafter.logits(rows).view(2, 5, -1)
    rows = rows.view(2, 5, -1)
    for slot, draft in enumerate(drafter.propose(requests())):
        before = requests()[slot].history[-1]
        for n, token in enumerate(draft.tokens):
            unary, ids = logits[slot, n].topk(4)
            factors = table["predecessor"][before] * (gate @ rows[slot, n])
            scores = unary + table["successor"][ids] @ factors
            assert token == int(ids[scores.argmax()])
            sure = float(scores.softmax(-1).max())
            assert draft.confidence[n] == pytest.approx(sure, abs=1e-12)
            before = token


def test_own_embedding_and_head_are_used_where_there_are_any() -> None:
    rng = np.random.default_rng(3)
    plain = made()
    own = dict(plain.tensors)
    for name in ("embed_tokens.weight", "lm_head.weight"):
        values = rng.standard_normal((160, 48)).astype(np.float32)
        alone = {**plain.tensors, name: pack_tensor(name, values, F32)}
        own[name] = alone[name]
        assert tokens(replace(plain, tensors=alone)) != tokens(plain)
    assert tokens(replace(plain, tensors=own)) != tokens(plain)


def test_drafts_do_not_depend_on_company() -> None:
    for checkpoint in (made(), made(selector=False)):
        drafter = fed(checkpoint)
        for sampling in (Sampling(), Sampling(temperature=0.8), Sampling(0.8, rule="rejection")):
            both = drafter.propose(requests(sampling))
            alone = [drafter.propose([one])[0] for one in requests(sampling)]
            turned = drafter.propose(requests(sampling)[::-1])[::-1]
            assert [d.tokens for d in both] == [d.tokens for d in alone]
            assert [d.tokens for d in both] == [d.tokens for d in turned]


@pytest.mark.parametrize("causal", [True, False])
def test_only_causal_blocks_have_as_few_rows_as_are_asked_for(causal: bool) -> None:
    for selector in (True, False):
        drafter = fed(drafter_checkpoint(160, 48, (0, 2), selector, causal=causal))
        assert drafter.shortens == causal
        whole = drafter.propose(requests())
        for limits in ((1, 1), (3, 2), (5, 5)):
            pairs = zip(requests(), limits, strict=True)
            short = [replace(one, limit=limit) for one, limit in pairs]
            rows = max(limits) if causal else drafter.block - 1
            assert drafter.candidates(drafter.draft(short)).shape[0] == 2 * rows
            for part, full, limit in zip(drafter.propose(short), whole, limits, strict=True):
                assert part.tokens == full.tokens[:limit]
                assert part.confidence == pytest.approx(full.confidence[:limit], rel=1e-12)


def test_a_shorter_limit_is_the_beginning_of_a_longer_draft() -> None:
    for checkpoint in (made(), made(selector=False)):
        drafter = fed(checkpoint)
        for sampling in (Sampling(), Sampling(temperature=0.8), Sampling(0.8, rule="rejection")):
            whole = drafter.propose(requests(sampling))
            for limit in range(1, 6):
                short = [replace(one, limit=limit) for one in requests(sampling)]
                for part, full in zip(drafter.propose(short), whole, strict=True):
                    assert part.tokens == full.tokens[:limit]
                    assert part.confidence == full.confidence[:limit]
                    assert len(part.q) == (limit if sampling.rule == "rejection" else 0)
