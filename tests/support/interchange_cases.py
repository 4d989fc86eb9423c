"""Drafters that were shown to llama.cpp, made in the same way for the recording and the test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from draftwalk.convert import Options, convert, mix_of
from draftwalk.weights import pack_integers, pack_tensor
from support.drafter_folders import floats, whole
from support.models import MadeCheckpoint, drafter_checkpoint

V, DEPTH, CONTEXT, BLOCK, ANCHOR = 160, 4, 20, 6, 17
TAPS = (1, 2)
SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class Case:
    """One drafter.

    Attributes:
        name: in the recording.
        selector: DFlash2 or DFlash.
        changes: of its configuration; those of `dflash_config` begin with a dot.
        types: what it is written as.
        width: of drafter and target.
        reduced: whether it has a head of its own with fewer rows.
    """

    name: str
    selector: bool = True
    changes: tuple[tuple[str, object], ...] = ()
    types: tuple[str, ...] = ("f32",)
    width: int = 64
    reduced: bool = False


CASES = (
    Case("two-way"),
    Case("causal", changes=(("is_causal", True),)),
    Case("window", changes=(("layer_types", [SLIDING, FULL]), ("sliding_window", 8))),
    Case("causal-window", changes=(("layer_types", [SLIDING, SLIDING]), ("is_causal", True))),
    Case(
        "scaled",
        changes=(
            (".output_multiplier", 0.5),
            (".input_embedding_scale", 2.0),
            (".final_logit_softcapping", 3.0),
        ),
    ),
    Case("linear-rope", changes=(("rope_scaling", {"rope_type": "linear", "factor": 2.5}),)),
    Case("adjacent-pairs", changes=(("rope_is_neox_style", False),)),
    Case("sinks", changes=(("attention_sink_bias", True),)),
    Case("dflash", selector=False),
    Case("dflash-window", False, (("layer_types", [FULL, SLIDING]), ("sliding_window", 7))),
    Case("dflash-scaled", False, ((".input_embedding_scale", 0.5),)),
    Case("dflash-reduced", False, reduced=True),
    Case("types", types=("f32", "bf16", "q8_0", "q4_0", "q4_k_m"), width=256),
    Case("dflash-types", False, types=("bf16", "q8_0", "q4_0", "q4_k_m"), width=256),
)


def made(case: Case) -> MadeCheckpoint:
    """The drafter."""
    seed = [one.name for one in CASES].index(case.name) + 40
    base = drafter_checkpoint(
        V,
        case.width,
        TAPS,
        selector=case.selector,
        causal=False,
        block=BLOCK,
        seed=seed,
        mlp=case.width,
    )
    config, own = dict(base.config), dict(base.config["dflash_config"])  # type: ignore[call-overload]
    for key, value in case.changes:
        (own if key.startswith(".") else config)[key.removeprefix(".")] = value
    tensors = dict(base.tensors)
    rng = np.random.default_rng(seed)
    if "attention_sink_bias" in config:
        for n in range(2):
            name = f"layers.{n}.self_attn.sinks"
            sinks = rng.standard_normal(2).astype(np.float32)
            tensors[name] = pack_tensor(name, sinks, floats("F32"))
    if case.reduced:
        ids = np.sort(rng.choice(V, 40, replace=False))
        config["draft_vocab_size"] = len(ids)
        tensors["d2t"] = pack_integers("d2t", ids - np.arange(len(ids)), whole("I64"))
        head = rng.standard_normal((len(ids), case.width)).astype(np.float32)
        tensors["lm_head.weight"] = pack_tensor("lm_head.weight", head, floats("F32"))
    kind = "DFlash2DraftModel" if case.selector else "DFlashDraftModel"
    config |= {"architectures": [kind], "dflash_config": own, "num_target_layers": DEPTH}
    return replace(base, config=config, tensors=tensors, path=Path(case.name))


def tables(case: Case) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The target's embedding and head [V, H]."""
    rng = np.random.default_rng(case.width)
    embedding = rng.standard_normal((V, case.width)).astype(np.float32) / 2
    return embedding, rng.standard_normal((V, case.width)).astype(np.float32) / 3


def features(case: Case) -> NDArray[np.float32]:
    """What the target tells of the context [CONTEXT, T * H]."""
    rng = np.random.default_rng(case.width + 1)
    return rng.standard_normal((CONTEXT, len(TAPS) * case.width)).astype(np.float32)


def write(case: Case, outtype: str, path: Path) -> Path:
    """The file that llama.cpp was shown."""
    convert(made(case), path, "gguf", Options(outtype=mix_of(outtype), tokenizer=False))
    return path
