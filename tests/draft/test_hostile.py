"""Damaged and contradictory drafters: one clear line each, quickly, whatever is wrong with them."""

import copy
import math
import random
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftwalk.draft.load import build_drafter
from draftwalk.draft.speculators import usual_config
from draftwalk.errors import CheckpointError, UserError
from draftwalk.models import open_model
from draftwalk.quant import PackingFormat, formats_by_name
from draftwalk.quant.integers import I64
from draftwalk.weights import RawTensor, Typed, pack_integers, pack_tensor
from draftwalk.weights.gguf_values import ValueType
from support.gguf_drafters import floats, gguf_keys, gguf_tensors, write_drafter
from support.models import DOUBLE, MadeCheckpoint, drafter_checkpoint, target

QUICK = 0.1  # seconds: the median of each kind of damage; a test machine may stumble at one
TYPES = ("sliding_attention", "full_attention")

NOT_WHOLE: list[Any] = ["8", 1.5, True, [8], {"a": 1}, math.nan, math.inf, -1, "", [], 2**70]
NOT_NUMBERS: list[Any] = ["1", True, [1.0], {"a": 1}, math.nan, math.inf, -math.inf]
NOT_FLAGS: list[Any] = ["true", 1, 0, 1.0, [True], {"a": True}]
NOT_IDS: list[Any] = ["0, 2", 3, [0, -1], [0, 1.5], [True, 2], [[0], 2], {"0": 2}, [None, 2], []]
TABLES: list[Any] = ["a", 3, [1], True]

TOP: dict[str, list[Any]] = {
    **{
        key: [*NOT_WHOLE, 0]
        for key in (
            *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
            *("head_dim", "intermediate_size", "vocab_size", "max_position_embeddings"),
            *("sliding_window", "target_hidden_size", "draft_vocab_size"),
        )
    },
    "rms_norm_eps": [*NOT_NUMBERS, 0, -1e-6],
    "rope_theta": [*NOT_NUMBERS, 0, -1.0],
    "rope_scaling": [*TABLES, {"type": "yarn"}, {"type": "linear"}, {"type": 3}, {"mscale": 1}],
    "layer_types": ["full_attention", 2, ["full_attention"], ["full_attention", 3], [*TYPES] * 2],
    "is_causal": NOT_FLAGS,
    "attention_bias": [*NOT_FLAGS, True],
    "attention_sink_bias": [*NOT_FLAGS, True],
    "is_neox_style": NOT_FLAGS,
    "dflash_config": TABLES,
    "draftwalk": [*TABLES, {"draft_vocabulary": "all"}, {"draft_vocabulary": [1, 1, 2, 3, 4]}],
    "hidden_act": ["gelu", 3, ["silu"]],
    "quantization_config": [{"quant_method": "fp8"}, "fp8"],
    "projector_type": ["domino", 3],
    "surprise": [1, "a", [1], {"a": 1}, True],
}
NESTED: dict[str, list[Any]] = {
    "block_size": [*NOT_WHOLE, 0, 1, 5000],
    "mask_token_id": [*NOT_WHOLE, 160, 2**40],
    "target_layer_ids": [*NOT_IDS, [0], [0, 1, 2], [0, 2**40], [0, 3]],
    "conv_kernel_size": [*NOT_WHOLE, 0, 3],
    "conv_group_size": [*NOT_WHOLE, 0, 7, 96],
    "selector_rank": [*NOT_WHOLE, 0, 7],
    "selector_top_k": [*NOT_WHOLE, 0, 161],
    "output_multiplier": [*NOT_NUMBERS, 0, -1.0],
    "input_embedding_scale": [*NOT_NUMBERS, 0, -1.0],
    "final_logit_softcapping": [*NOT_NUMBERS, -1.0],
    "use_swa": [*NOT_FLAGS, True],
    "causal": NOT_FLAGS,
    "sample_from_anchor": [True, 1.5, "no"],
    "surprise": [1, "a", [1], {"a": 1}, True],
}


def made() -> MadeCheckpoint:
    one = drafter_checkpoint(160, 48, (0, 2), selector=True, layer_types=TYPES)
    return replace(one, config=copy.deepcopy(dict(one.config)))


def build(checkpoint: Any) -> None:
    model = target("llama-rope3")
    build_drafter(checkpoint, DOUBLE, model.tables, model.depth, 100)


def refused(attempt: Callable[[], object]) -> float:
    """Seconds until one line says what is wrong."""
    start = time.perf_counter()
    with pytest.raises(UserError) as caught:
        attempt()
    seconds = time.perf_counter() - start
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert 10 < len(message) < 400
    return seconds


def configurations() -> Iterator[tuple[str, MadeCheckpoint]]:
    for table, keys in (("", TOP), ("dflash_config", NESTED)):
        for key, values in keys.items():
            for value in values:
                one = made()
                into: Any = one.config[table] if table else one.config
                into[key] = value
                yield f"{table}.{key} = {value!r}", one


def test_configurations() -> None:
    build(made())
    seconds = []
    for what, one in configurations():
        try:
            seconds.append(refused(lambda one=one: build(one)))  # type: ignore[misc]
        except pytest.fail.Exception as error:
            raise AssertionError(f"{what} is accepted") from error
    assert len(seconds) > 300
    assert statistics.median(seconds) < QUICK


def test_configurations_of_speculators() -> None:
    """The same nonsense in the other layout; what it has no word for is refused as well."""
    one = made()
    own: dict[str, Any] = dict(one.config["dflash_config"])  # type: ignore[call-overload]
    taps = own.pop("target_layer_ids")
    layout: dict[str, Any] = {
        "speculators_model_type": "dflash2",
        "transformer_layer_config": {
            key: value for key, value in one.config.items() if key not in own | {"dflash_config": 0}
        },
        "aux_hidden_state_layer_ids": [tap + 1 for tap in taps],
        **own,
    }
    layout["transformer_layer_config"].pop("is_causal")
    build(replace(one, config=usual_config(layout, "x")))
    cases = [(("transformer_layer_config", key), values) for key, values in TOP.items()]
    cases += [(("", key), values) for key, values in NESTED.items()]
    cases += [(("", "aux_hidden_state_layer_ids"), [*NOT_IDS, [0, 1], [1], [1, 9]])]
    meaningless = {"dflash_config", "target_layer_ids", "causal", "use_swa", "draftwalk"}
    seconds = []
    for (table, key), values in cases:
        if key in meaningless or key in {"draft_vocab_size", "target_hidden_size"}:
            continue
        for value in values:
            changed = copy.deepcopy(layout)
            (changed[table] if table else changed)[key] = value

            def attempt(changed: dict[str, Any] = changed) -> None:
                build(replace(one, config=usual_config(changed, "x")))

            try:
                seconds.append(refused(attempt))
            except pytest.fail.Exception as error:
                raise AssertionError(f"{table}.{key} = {value!r} is accepted") from error
    assert statistics.median(seconds) < QUICK


def wrong_keys() -> Iterator[tuple[str, Any]]:
    """Keys of a file with values of every other type, and missing."""
    keys = gguf_keys(made())
    wrong: list[Any] = [
        "text",
        ["a", "b"],
        True,
        Typed(ValueType.INT32, -2),
        Typed(ValueType.INT64, -(2**40)),
        Typed(ValueType.UINT64, 2**63),
        2.5,
        float("nan"),
        float("inf"),
        [1.5],
        [True, False, True],
    ]
    optional = {  # a default stands in, which is no nonsense
        *("attention.key_length", "attention.value_length", "attention.head_count_kv"),
        *("rope.freq_base", "rope.dimension_count"),
    }
    for key, value in keys.items():
        if key in ("general.architecture", "tokenizer.ggml.model"):
            continue
        name = key.removeprefix("dflash.")
        if name not in optional:
            yield name, None
        for other in wrong:
            positive = isinstance(other, float) and math.isfinite(other)
            positive |= isinstance(other, Typed) and other.kind is ValueType.UINT64
            fits = isinstance(value, float) and positive
            if not fits:
                yield name, other


def test_keys_of_files(tmp_path: Path) -> None:
    path = tmp_path / "d.gguf"
    build(open_model(write_drafter(path, made(), SLIDING)))
    seconds = []
    for name, value in wrong_keys():
        write_drafter(path, made(), {**SLIDING, name: value})
        try:
            seconds.append(refused(lambda: build(open_model(path))))
        except pytest.fail.Exception as error:
            raise AssertionError(f"{name} = {value!r} is accepted") from error
    assert len(seconds) > 150
    assert statistics.median(seconds) < QUICK


SLIDING: dict[str, Any] = {
    "attention.sliding_window": 5,
    "attention.sliding_window_pattern": [True, False],
}


def test_tensors_of_files(tmp_path: Path) -> None:
    """Each one missing, of another shape, of another vocabulary, or of whole numbers."""
    path = tmp_path / "d.gguf"
    seconds = []
    for name, raw in gguf_tensors(made()).items():
        others: list[RawTensor | None] = [
            None,
            floats(name, *raw.shape, 2),
            floats(name, *raw.shape[:-1], raw.shape[-1] + 1),
            floats(name, raw.shape[0] + 1, *raw.shape[1:]),
            pack_integers(name, np.zeros(raw.shape, np.int64), I64()),
        ]
        for other in others:
            write_drafter(path, made(), SLIDING, {name: other})
            try:
                seconds.append(refused(lambda: build(open_model(path))))
            except pytest.fail.Exception as error:
                shape = None if other is None else (other.shape, other.format.NAME)
                raise AssertionError(f"{name} of {shape} is accepted") from error
    assert statistics.median(seconds) < QUICK


@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_changed(seed: int, tmp_path: Path) -> None:
    """A bit may turn one sound file into another; but it says one line, or it is one."""
    draw = random.Random(seed)
    path = tmp_path / "d.gguf"
    whole = bytearray(write_drafter(path, made(), SLIDING).read_bytes())
    head = whole.find(b"fc.weight") + 2000  # keys, and the beginning of the list of tensors
    seconds, accepted, messages = [], 0, []
    for _ in range(100):
        changed = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 8))):
            changed[draw.randrange(head)] = draw.randrange(256)
        if draw.random() < 0.1:
            del changed[draw.randrange(len(changed)) :]
        path.write_bytes(changed)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                build(open_model(path))
            accepted += 1
        except UserError as error:
            messages.append(str(error))
        seconds.append(time.perf_counter() - start)
    assert statistics.median(seconds) < QUICK
    assert all(len(message.splitlines()) == 1 for message in messages)
    assert accepted < 50


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("format_", ["F32", "F16", "BF16", "Q8_0"])
def test_weights_that_are_not_finite(format_: str, value: float) -> None:
    """One number anywhere is told: it would spoil drafts, and nobody knew why."""
    one = made()
    for name, raw in one.tensors.items():
        if format_ == "Q8_0" and (len(raw.shape) != 2 or raw.shape[1] % 32):
            continue
        packing = formats_by_name()[format_]
        assert isinstance(packing, PackingFormat)
        packed = pack_tensor(name, raw.unpack(), packing)
        number = packing.FLOATS[0]
        data = packed.data.copy()
        spoilt = number.exponent | (1 if math.isnan(value) else 0)
        data.reshape(-1, packing.BYTES).view(number.bits)[-1, 0] = spoilt
        damaged = {**one.tensors, name: replace(packed, data=data)}
        with pytest.raises(CheckpointError, match=f"tensor {re.escape(name)} has values that are"):
            build(replace(one, tensors=damaged))


def test_a_row_for_the_mask_token_that_is_a_pickle_is_told_of(tmp_path: Path) -> None:
    folder = tmp_path / "drafter"
    folder.mkdir()
    (folder / "mask_embedding.pt").write_bytes(b"never read")
    with pytest.warns(
        UserWarning, match=r"^drafter: mask_embedding\.pt, .* is a pickle and is not"
    ):
        build(replace(made(), path=folder))
