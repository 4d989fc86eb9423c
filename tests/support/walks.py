"""Recorded answers of a tiny model with words, and drafters for it of which one is often right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.engine import Engine
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.rows import Rows
from draftwalk.train.answers import AnswerSettings, answer
from draftwalk.train.conversations import Conversation
from draftwalk.train.shards import Answer, AnswerSet
from draftwalk.weights import GgufCheckpoint, pack_tensor
from support.models import MadeCheckpoint, drafter_checkpoint
from support.talking_model import VOCABULARY as V
from support.talking_model import WIDTH

MOST = 32
TAPS = (0, 2)
SETTINGS = AnswerSettings((2, 1, 0), sampled=0.4, max_tokens=MOST, parallel=5, whole=True)
CANDIDATES = 64
MASK = 3  # of drafters made for tests


def recorded(engine: Engine, folder: Path, count: int = 12) -> AnswerSet:
    """Answers, greedy and sampled, some of two turns, from two files."""
    asked = [
        Conversation(
            str(n),
            "odd" if n % 2 else "even",
            (f"What is this {n}",) if n % 3 else (f"Tell me {n}", f"And then {n}"),
        )
        for n in range(count)
    ]
    answer(engine, asked, folder, SETTINGS, lambda _: True)
    return AnswerSet(folder)


def turns(one: Answer) -> list[tuple[int, int]]:
    """First and end of every turn of the target."""
    edges = np.flatnonzero(np.diff(one.learned.numpy(), prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def knowing(
    answers: Iterable[Answer], target: GgufCheckpoint, context: int = 512
) -> MadeCheckpoint:
    """A DFlash2 drafter whose selector knows what mostly follows each token in these answers.

    Its rank is the vocabulary: the predecessor's table is the identity, and the successor's row of
    a token is high at tokens it follows. Its layers do little, so that all gates are about 1.
    """
    made = drafter_checkpoint(V, WIDTH, TAPS, selector=True, context=context)
    own = {**_table(made.config["dflash_config"])}
    own |= {"selector_rank": V, "selector_top_k": CANDIDATES, "input_embedding_scale": 10.0}
    tensors = dict(made.tensors)

    def put(name: str, values: NDArray[np.floating]) -> None:
        tensors[name] = pack_tensor(name, values.astype(np.float32), F32)

    for name in made.tensors:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            put(name, 0.3 * made.tensors[name].unpack())
    x = target.tensors["model.embed_tokens.weight"].unpack()[MASK]
    final = x / np.sqrt((x**2).mean()) * made.tensors["norm.weight"].unpack()
    put("candidate_selector.hidden_projection.weight", np.tile(final / (final @ final), (V, 1)))
    put("candidate_selector.predecessor_codebook", np.eye(V))
    pairs: Counter[tuple[int, int]] = Counter()
    for one in answers:
        pairs.update(pairwise(one.tokens.tolist()))
    after = np.zeros((V, V))
    for (before, token), count in pairs.items():
        after[token, before] = 20.0 * np.sqrt(count)
    put("candidate_selector.successor_codebook", after)
    return MadeCheckpoint({**made.config, "dflash_config": own}, tensors)


def hears_rounded(engine: Engine) -> Engine:
    """Its drafter hears features as they are kept on disk, in bfloat16."""
    observe = engine.drafter.observe

    def rounded(rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        observe(rows, features.to(torch.bfloat16).to(features.dtype), kept)

    engine.drafter.observe = rounded  # type: ignore[method-assign]
    return engine


def _table(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value
