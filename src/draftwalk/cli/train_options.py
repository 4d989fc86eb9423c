"""Options of `draftwalk train`, by what they are about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer


class Method(StrEnum):
    """Optimisers of matrices."""

    ADAMW = "adamw"
    MUON = "muon"


class OffsetWeights(StrEnum):
    """How offsets of a block are weighed."""

    D_PACE = "d-pace"
    DECAY = "decay"


class Precision(StrEnum):
    """How exactly matrices are multiplied while a drafter learns."""

    HIGHEST = "highest"
    HIGH = "high"
    MEDIUM = "medium"


class Frozen(StrEnum):
    """Parts that can be left as they start, to see what they are worth."""

    CONVOLUTION = "convolution"
    SELECTOR = "selector"


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})*", text):
        raise typer.BadParameter(f"{option} {text!r} is no list of whole numbers such as 1,8,14")
    return tuple(int(part) for part in text.split(","))


@dataclass(frozen=True)
class TapOptions:
    """What the drafter listens to."""

    taps: Annotated[
        str | None,
        typer.Option(
            "--taps",
            metavar="N,N,...",
            help="Target layers to listen to, the first is 0. [default: all but the last layer "
            "that the answers have; without answers five, evenly spread]",
        ),
    ] = None

    def chosen(self) -> tuple[int, ...] | None:
        """The layers, if any were named."""
        return None if self.taps is None else numbers(self.taps, "--taps")


@dataclass(frozen=True)
class AnswerOptions:
    """How prompts are answered."""

    predict: Annotated[
        int,
        typer.Option(
            "-n",
            "--predict",
            min=16,
            metavar="N",
            help="Most tokens of an answer; with less than 16 it is not kept.",
        ),
    ] = 256
    sampled: Annotated[
        float,
        typer.Option(
            "--sampled", min=0.0, max=1.0, metavar="SHARE", help="Share answered by sampling."
        ),
    ] = 0.35
    temperature: Annotated[
        float, typer.Option("--temp", "--temperature", min=0.01, metavar="T", help="Of those.")
    ] = 0.7
    most_prompt: Annotated[
        int, typer.Option("--most-prompt", min=8, metavar="N", help="Skip longer prompts.")
    ] = 512
    parallel: Annotated[
        int, typer.Option("-np", "--parallel", min=1, metavar="N", help="Prompts in one pass.")
    ] = 48
    loops: Annotated[
        bool,
        typer.Option(
            "--keep-loops", help="Keep answers that go round in circles, to measure on them."
        ),
    ] = False
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Answer the first N prompts.")
    ] = None


@dataclass(frozen=True)
class ShapeOptions:
    """The shape of a new drafter; one that is there has its own, and another is refused."""

    dflash: Annotated[
        bool, typer.Option("--dflash", help="Plain DFlash, without convolutions and selector.")
    ] = False
    layers: Annotated[
        int | None, typer.Option("--layers", min=1, metavar="N", help="Layers. [default: 3]")
    ] = None
    mlp: Annotated[
        int | None,
        typer.Option("--mlp", min=1, metavar="N", help="MLP width. [default: the target's]"),
    ] = None
    block: Annotated[
        int | None,
        typer.Option("--block", min=2, max=64, metavar="N", help="Rows of a block. [default: 8]"),
    ] = None
    mask: Annotated[
        int | None,
        typer.Option(
            "--mask", min=0, metavar="ID", help="The mask token. [default: a reserved one]"
        ),
    ] = None
    window: Annotated[
        int | None,
        typer.Option(
            "--attention-window", min=1, metavar="N", help="Places a row looks back. [default: all]"
        ),
    ] = None
    two_way: Annotated[
        bool, typer.Option("--two-way", help="Rows of a block see those behind them, too.")
    ] = False
    rank: Annotated[
        int | None,
        typer.Option("--rank", min=1, metavar="N", help="Of the selector. [default: 128]"),
    ] = None
    candidates: Annotated[
        int | None,
        typer.Option(
            "--top-k", min=1, metavar="N", help="Candidates of the selector. [default: 16]"
        ),
    ] = None


@dataclass(frozen=True)
class LearnOptions:
    """How a drafter is trained."""

    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DRAFTER",
            help="Start from a drafter, in its shape: a drafter.gguf or a known name.",
        ),
    ] = None
    scratch: Annotated[
        bool,
        typer.Option(
            "--from-scratch", help="Start from random values, not from the target's last layers."
        ),
    ] = False
    batch: Annotated[
        int, typer.Option("--batch", min=1, metavar="N", help="Answers in an update.")
    ] = 4
    anchors: Annotated[
        int, typer.Option("--anchors", min=1, metavar="N", help="Blocks in an answer, at most.")
    ] = 48
    lengths: Annotated[
        str | None,
        typer.Option(
            "--lengths",
            metavar="N,N,...",
            help="Rows of blocks, drawn for each answer; late tokens are seldom reached. "
            "[default: half of the block twice, three quarters, the block]",
        ),
    ] = None
    head: Annotated[
        int,
        typer.Option(
            "--head", min=0, metavar="N", help="Frequent tokens in the head; 0 is the whole head."
        ),
    ] = 6144
    drawn: Annotated[
        int,
        typer.Option("--negatives", min=0, metavar="N", help="Further tokens drawn every update."),
    ] = 512
    weights: Annotated[OffsetWeights, typer.Option("--weights", help="Of a block's offsets.")] = (
        OffsetWeights.D_PACE
    )
    taught: Annotated[
        float,
        typer.Option(
            "--teach",
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Share of the target's distribution in what is learned, beside its tokens.",
        ),
    ] = 0.5
    method: Annotated[
        Method, typer.Option("--optimiser", help="Of matrices; AdamW takes all else.")
    ] = Method.ADAMW
    rate: Annotated[
        float | None,
        typer.Option(
            "--lr",
            min=1e-8,
            metavar="X",
            help="Its learning rate. [default: 8e-4 for adamw, 4e-3 for muon]",
        ),
    ] = None
    listed: Annotated[
        int,
        typer.Option(
            "--draft-vocabulary",
            min=0,
            metavar="N",
            help="Tokens the finished drafter may propose here, the target's most frequent; 0 is "
            "all. Other engines pass the list over.",
        ),
    ] = 8192
    frozen: Annotated[
        list[Frozen] | None,
        typer.Option("--freeze", help="Leave a part as it starts. May be repeated."),
    ] = None
    precision: Annotated[
        Precision,
        typer.Option(
            "--precision",
            help="Of products, as torch names it: medium multiplies in bfloat16 where the "
            "processor has units for it, and adds in float32.",
        ),
    ] = Precision.MEDIUM
    seed: Annotated[
        int,
        typer.Option(
            "--seed", min=0, max=2**32 - 1, metavar="N", help="Of all that is drawn to learn."
        ),
    ] = 1
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="Where to learn: cpu, cuda, cuda:1.")
    ] = "cpu"


@dataclass(frozen=True)
class BudgetOptions:
    """How long."""

    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            min=0.01,
            metavar="X",
            help="Minutes to learn, without loading before and measuring at the end. [this or "
            "--updates is required]",
        ),
    ] = None
    updates: Annotated[
        int | None, typer.Option("--updates", min=1, metavar="N", help="Updates to learn.")
    ] = None
    decay: Annotated[
        float,
        typer.Option(
            "--decay",
            min=0.0,
            max=0.9,
            metavar="SHARE",
            help="Share of all updates so far in which the learning rate falls at the end; 0 keeps "
            "it up, to go on later.",
        ),
    ] = 0.2
    measure_every: Annotated[
        float,
        typer.Option(
            "--measure-every",
            min=0.0,
            metavar="MINUTES",
            help="Between measurements; 0: at the end.",
        ),
    ] = 30.0


@dataclass(frozen=True)
class MachineOptions:
    """What it runs on."""

    threads: Annotated[
        int | None,
        typer.Option(
            "-t", "--threads", min=1, max=1024, metavar="N", help="CPU threads. [default: cores]"
        ),
    ] = None
