"""Tiny drafters to train, and made-up answers to train them on."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from draftwalk.draft.config import DrafterConfig
from draftwalk.models import open_model
from draftwalk.train.model import LearningDrafter, TargetTables
from draftwalk.train.shape import Shape, float_tensor, new_config, new_tensors
from draftwalk.train.shards import Answer, AnswerFacts, DataFacts
from draftwalk.weights import RawTensor
from support.models import CPU, FIXTURES, target

TARGET = "llama-rope3"  # 160 tokens, 48 wide
TAPS = (0, 1)
SHAPE = Shape(TAPS, layers=2, block=6, mask=3, group=8, rank=6, candidates=4)
FACTS = AnswerFacts("one", "made", greedy=True, seed=0, loop=None, finish="stop")
WIDTH, VOCABULARY = 48, 160
DATA = DataFacts("t", "t", "b", TAPS, WIDTH, VOCABULARY, 0.0, 0.7, 64, whole=False)


def tables(device: torch.device = CPU) -> TargetTables:
    """Of the recorded target."""
    tensors = open_model(FIXTURES / "targets" / TARGET).tensors
    embedding = torch.from_numpy(tensors["model.embed_tokens.weight"].unpack())
    stored = tensors.get("lm_head.weight")
    head = embedding if stored is None else torch.from_numpy(stored.unpack())
    norm = torch.from_numpy(tensors["model.norm.weight"].unpack())
    return TargetTables(*(part.to(device) for part in (embedding, head, norm)), 1e-5, last=2)


def parts(shape: Shape = SHAPE, lively: bool = True) -> tuple[DrafterConfig, dict[str, RawTensor]]:
    """Configuration and starting values; lively ones have no parts that do nothing yet."""
    checkpoint = open_model(FIXTURES / "targets" / TARGET)
    config = DrafterConfig.read(new_config(shape, checkpoint, 3), "the drafter")
    generator = torch.Generator().manual_seed(1)
    tensors = new_tensors(config, checkpoint, target(TARGET).blueprint, generator, inherit=False)
    if lively:
        for name, raw in tensors.items():
            values = torch.from_numpy(raw.unpack().copy())
            noise = torch.randn(values.shape, generator=generator)
            tensors[name] = float_tensor(name, values + 0.15 * noise)
    return config, tensors


def learner(
    shape: Shape = SHAPE,
    lively: bool = True,
    device: torch.device = CPU,
) -> LearningDrafter:
    """A drafter to train."""
    config, tensors = parts(shape, lively)
    return LearningDrafter(config, tensors, tables(device), 256, device)


def answer(seed: int, length: int = 40, prompt: int = 7, taps: int = len(TAPS)) -> Answer:
    """Drawn tokens and features."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(5, VOCABULARY, (length,), generator=generator)
    learned = torch.arange(length) >= prompt
    features = torch.randn(length - 1, taps * WIDTH, generator=generator).to(torch.bfloat16)
    return Answer(replace(FACTS, key=str(seed)), tokens, learned, features)


def grad_of(drafter: LearningDrafter) -> dict[str, Tensor]:
    """Copies of all gradients."""
    return {
        name: value.grad.clone()
        for name, value in drafter.parameters.items()
        if value.grad is not None
    }
