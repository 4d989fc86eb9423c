"""Reduced draft vocabularies: the same drafts as if all other tokens were out of the question."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from draftwalk.draft import Draft
from draftwalk.draft.load import build_drafter
from draftwalk.draft.vocabulary import DraftVocabulary, listed_ids, read_list
from draftwalk.errors import CheckpointError, PairingError
from draftwalk.models import open_model
from draftwalk.quant.integers import I64
from draftwalk.settings import Sampling
from draftwalk.target.load import build_target
from draftwalk.weights import pack_integers
from support.drafts import drafts_of, fed, proposals, requests, tokens_of
from support.gguf_drafters import floats, write_drafter
from support.models import FIXTURES, MadeCheckpoint, drafter_checkpoint, target

WIDTH, VOCABULARY = 48, 160
IDS = [159, 3, 4, 8, 15, 16, 23, 42, 99, 120]
GREEDY = (Sampling(), Sampling(logit_bias={42: 3.0}), Sampling(repeat_penalty=1.5))
SAMPLED = (
    Sampling(temperature=0.9),
    Sampling(temperature=0.9, rule="rejection"),
    Sampling(temperature=1.5, top_k=4, rule="rejection"),
    Sampling(temperature=1.5, top_p=0.8, frequency_penalty=0.3, rule="rejection"),
    Sampling(temperature=0.8, min_p=0.1),
)


def made(selector: bool) -> MadeCheckpoint:
    return drafter_checkpoint(VOCABULARY, WIDTH, (0, 2), selector)


def own_head(selector: bool, ids: Sequence[int] | None) -> MadeCheckpoint:
    """With a head of its own, of all tokens or of some."""
    one = made(selector)
    whole = floats("lm_head.weight", VOCABULARY, WIDTH)
    if ids is None:
        return replace(one, tensors={**one.tensors, "lm_head.weight": whole})
    rows = whole.unpack()[[*ids]]
    head = replace(whole, shape=rows.shape, data=rows.view(np.uint8).reshape(-1))
    offsets = pack_integers("d2t", np.array(ids) - np.arange(len(ids)), I64())
    tensors = {**one.tensors, "lm_head.weight": head, "d2t": offsets}
    return replace(one, tensors=tensors, config={**one.config, "draft_vocab_size": len(ids)})


def same(left: list[Draft], right: list[Draft]) -> None:
    for a, b in zip(left, right, strict=True):
        assert a.tokens == b.tokens
        assert a.confidence == pytest.approx(b.confidence, abs=1e-12)
        for p, q in zip(a.q, b.q, strict=True):
            assert torch.equal(p.ids, q.ids)
            assert torch.allclose(p.p, q.p, atol=1e-12)


@pytest.mark.parametrize("selector", [True, False])
def test_a_map_a_list_and_a_stored_list_are_the_same(selector: bool, tmp_path: Path) -> None:
    mapped = drafts_of(own_head(selector, IDS), samplings=GREEDY + SAMPLED)
    whole = own_head(selector, None)
    same(drafts_of(whole, IDS, GREEDY + SAMPLED), mapped)
    stored = replace(whole, config={**whole.config, "draftwalk": {"draft_vocabulary": IDS}})
    same(drafts_of(stored, None, GREEDY + SAMPLED), mapped)
    asked = drafts_of(stored, [5, 6, 7, 8], GREEDY)
    assert {t for draft in asked for t in draft.tokens} <= {5, 6, 7, 8}
    path = write_drafter(tmp_path / "d.gguf", whole, {"draftwalk.draft_vocabulary": IDS})
    two_way = replace(whole, config={**whole.config, "is_causal": False})
    assert tokens_of(open_model(path)) == tokens_of(two_way, IDS)


def test_dflash_drafts_as_if_all_others_were_banned() -> None:
    """The confidence of llama.cpp's p_min looks at the ten best, so it is told the ten."""
    bans = {token: -float("inf") for token in range(VOCABULARY) if token not in IDS}
    whole = own_head(selector=False, ids=None)
    for sampling in (*GREEDY, *SAMPLED):
        banned = replace(sampling, logit_bias={**bans, **sampling.logit_bias})
        (wanted,) = (drafts_of(whole, None, [banned]),)
        got = drafts_of(own_head(selector=False, ids=IDS), None, [sampling])
        for a, b in zip(got, wanted, strict=True):
            assert a.tokens == b.tokens
            for p, q in zip(a.q, b.q, strict=True):
                assert torch.equal(p.ids, q.ids)
                assert torch.allclose(p.p, q.p, atol=1e-12)


@pytest.mark.parametrize("selector", [True, False])
def test_rows_of_the_target_s_head(selector: bool) -> None:
    one = made(selector)
    model = target("llama-rope3")
    head = model.tables.head.weight  # type: ignore[attr-defined]
    rows = replace(
        floats("lm_head.weight", len(IDS), WIDTH),
        data=head[sorted(IDS)].float().numpy().view(np.uint8).reshape(-1),
    )
    offsets = pack_integers("d2t", np.array(sorted(IDS)) - np.arange(len(IDS)), I64())
    tensors = {**one.tensors, "lm_head.weight": rows, "d2t": offsets}
    config = {**one.config, "draft_vocab_size": len(IDS)}
    mapped = drafts_of(replace(one, tensors=tensors, config=config))
    same(drafts_of(one, IDS), mapped)


def test_all_tokens_are_no_reduction() -> None:
    for selector in (True, False):
        everything = [*range(VOCABULARY)]
        same(drafts_of(made(selector), everything), drafts_of(made(selector)))
        same(
            drafts_of(own_head(selector, everything[::-1])),
            drafts_of(own_head(selector, None)),
        )


def test_ten_tokens_give_their_confidence() -> None:
    for draft in drafts_of(made(selector=False), [7, 9], GREEDY[:1]):
        assert set(draft.tokens) <= {7, 9}
        assert all(0.5 <= sure <= 1.0 for sure in draft.confidence)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_natively(name: str) -> None:
    """In a recorded pass, from packed rows, drafts are the reference's up to rounding."""
    native = pytest.importorskip("draftwalk.ops.native")
    model = build_target(open_model(FIXTURES / "targets" / name), native.NativeOperations(2))
    for selector in (True, False):
        one = drafter_checkpoint(VOCABULARY, WIDTH, (0, 1), selector)
        mapped = own_head(selector, IDS)
        config = {**one.config, "draft_vocab_size": len(IDS)}
        for made_, listed in ((one, IDS), (replace(mapped, config=config), None)):
            got, wanted = (
                proposals(
                    fed(build_drafter(made_, of.ops, of.tables, of.depth, 512, listed)),
                    GREEDY + SAMPLED,
                )
                for of in (model, target(name))
            )
            assert {token for draft in got for token in draft.tokens} <= set(IDS)
            same_tokens = [a.tokens == b.tokens for a, b in zip(got, wanted, strict=True)]
            assert sum(same_tokens) >= 0.8 * len(same_tokens)


def test_natively_packed_rows_give_the_bits_of_the_whole_head() -> None:
    native = pytest.importorskip("draftwalk.ops.native")
    model = build_target(open_model(FIXTURES / "targets" / "llama"), native.NativeOperations(2))
    one = drafter_checkpoint(VOCABULARY, WIDTH, (0, 1), selector=False)
    for listed in (IDS, [*range(7, 7 + 33)]):
        values = []
        for words in (None, listed):
            built = build_drafter(one, model.ops, model.tables, model.depth, 512, words)
            values.append(fed(built).draft(requests(Sampling()))[0].clone())
        assert torch.equal(values[1], values[0][:, sorted(listed)])


def test_spreading() -> None:
    words = DraftVocabulary(torch.tensor([1, 4]), 6)
    spread = words.spread(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    low = -torch.inf
    assert spread.tolist() == [[low, 1.0, low, low, 2.0, low], [low, 3.0, low, low, 4.0, low]]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "names no token"),
        ([3, 4, 3, 5], "names token 3 twice"),
        ([3, 4, 160], "names token 160, the target has 160"),
        ([3, 4, -1, 7], "names token -1"),
        ([3, 4, 5], "names 3 tokens, this drafter chooses among 4 at a time"),
    ],
)
def test_lists_that_cannot_be(ids: list[int], message: str) -> None:
    with pytest.raises((CheckpointError, PairingError), match=f"the draft vocabulary {message}"):
        tokens_of(made(selector=True), ids)


def test_two_reductions_are_one_too_many() -> None:
    for one, listed in (
        (own_head(selector=False, ids=IDS), IDS),
        (
            replace(
                own_head(selector=False, ids=IDS),
                config={
                    **own_head(selector=False, ids=IDS).config,
                    "draftwalk": {"draft_vocabulary": IDS},
                },
            ),
            None,
        ),
    ):
        with pytest.raises(CheckpointError, match="reduced draft vocabulary of its own"):
            tokens_of(one, listed)


def test_files(tmp_path: Path) -> None:
    text = tmp_path / "ids"
    text.write_text("# frequent tokens\n\n159\n3 # the\r\n4\n  8  \n")
    assert read_list(text) == [159, 3, 4, 8]
    tensors: dict[str, Any] = {
        "a": np.array([159, 3, 4, 8], np.int32),
        "b": np.array([159, 3, 4, 8]),
        "c": np.isin(np.arange(VOCABULARY), [159, 3, 4, 8]),
    }
    for name, values in tensors.items():
        save_file({"x": values}, tmp_path / name)
        assert sorted(read_list(tmp_path / name)) == [3, 4, 8, 159]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ntwo\n", "line 2 is 'two'"),
        ("1 2\n", "line 1 is '1 2'"),
        ("-1\n", "line 1 is '-1'"),
        ("1e3\n", "line 1"),
        ("9" * 16, "line 1"),
        ("٣\n", "line 1"),
        ("\x00\x01", "line 1"),
    ],
)
def test_files_that_are_no_lists(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "ids"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_list(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_byte_order_mark_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("3\r\n5\r\n", encoding="utf-8-sig")
    assert read_list(tmp_path / "ids") == [3, 5]


def test_other_files_that_are_no_lists(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_list(path)
    for tensors, message in (
        ({"a": np.arange(3), "b": np.arange(3)}, "has 2 tensors"),
        ({"a": np.arange(4).reshape(2, 2)}, "expected one row of ids"),
        ({"a": np.ones(3, np.float32)}, "where integers are needed"),
    ):
        save_file(tensors, path)
        with pytest.raises(CheckpointError, match=message):
            read_list(path)


def test_ids_come_back_ascending() -> None:
    assert listed_ids(IDS, VOCABULARY, 1, "x").tolist() == sorted(IDS)
