"""Options of the command line, in groups that verbs share. Names are those llama.cpp's users know.

Nothing here imports torch: help must be quick.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from draftwalk.cli import json_text
from draftwalk.fetch import DEFAULT_CACHE
from draftwalk.settings import Limits, Window

DEFAULT_MODEL = "smollm2-135m"
NO_DRAFTER = "none"
_MOST_THREADS = 1024  # where thousands cannot be started, the process ends without a word


class Dtype(StrEnum):
    """Types models can compute in."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class BackEnd(StrEnum):
    """What computes."""

    AUTO = "auto"
    NATIVE = "native"
    TORCH = "torch"


class KVType(StrEnum):
    """How the native back end stores K/V."""

    F16 = "f16"
    Q8 = "q8"


class SpecRule(StrEnum):
    """Verify rules."""

    COUPLED = "coupled"
    REJECTION = "rejection"


@dataclass(frozen=True)
class StoreOptions:
    """Where named models are kept."""

    cache_dir: Annotated[
        Path, typer.Option("--cache-dir", metavar="DIR", help="Where known models are kept.")
    ] = DEFAULT_CACHE
    offline: Annotated[bool, typer.Option("--offline", help="Never touch the network.")] = False


@dataclass(frozen=True)
class PlaceOptions:
    """Where models compute."""

    ctx_size: Annotated[
        int | None,
        typer.Option(
            "-c",
            "--ctx-size",
            min=0,
            metavar="N",
            help="Most tokens of a text, prompt included; 0 is all the model was made for, "
            "by default at most 4096 of it.",
        ),
    ] = None
    device: Annotated[
        str, typer.Option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1 and so on.")
    ] = "cpu"
    dtype: Annotated[Dtype, typer.Option("--dtype", help="Type to compute in.")] = Dtype.FLOAT32
    backend: Annotated[
        BackEnd,
        typer.Option(
            "--backend",
            help="native: kernels for the CPU, in float32; torch: everything else. auto takes "
            "native wherever it can.",
        ),
    ] = BackEnd.AUTO
    threads: Annotated[
        int | None,
        typer.Option(
            "-t",
            "--threads",
            min=1,
            max=_MOST_THREADS,
            metavar="N",
            help="CPU threads; as many as there are cores by default.",
        ),
    ] = None
    kv_type: Annotated[
        KVType,
        typer.Option("--kv-type", help="How the native back end stores keys and values."),
    ] = KVType.F16
    draft_kv_type: Annotated[
        KVType | None,
        typer.Option(
            "--draft-kv-type",
            help="The same for the drafter's. [default: as --kv-type]",
        ),
    ] = None


@dataclass(frozen=True)
class ModelOptions:
    """Target and drafter."""

    model: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--model",
            metavar="MODEL",
            help="GGUF file, safetensors folder, a known name, or owner/name[:quant] of the "
            f"Hugging Face hub. [default: what the drafter's card names, else {DEFAULT_MODEL}]",
        ),
    ] = None
    model_draft: Annotated[
        str | None,
        typer.Option(
            "-md",
            "--model-draft",
            metavar="MODEL",
            help="The drafter, likewise; 'none' decodes plainly. By default what the target's card "
            "names, else the packaged drafter that was trained for the target.",
        ),
    ] = None
    hf_repo: Annotated[
        str | None,
        typer.Option(
            "-hf",
            "-hfr",
            "--hf-repo",
            metavar="REPO[:QUANT]",
            help="The target from the Hugging Face hub, even where a folder has its name; kept in "
            "the hub's cache (HF_HOME), with the hub's token (HF_TOKEN).",
        ),
    ] = None
    hf_repo_draft: Annotated[
        str | None,
        typer.Option(
            "-hfd",
            "-hfrd",
            "--hf-repo-draft",
            "--spec-draft-hf",
            metavar="REPO[:QUANT]",
            help="The drafter from the hub, likewise.",
        ),
    ] = None
    draft_vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--draft-vocabulary",
            metavar="FILE",
            help="Tokens the drafter may propose: text with one id a line, or a safetensors file.",
        ),
    ] = None

    def check(self) -> None:
        """Refuses options that contradict each other."""
        if self.model is not None and self.hf_repo is not None:
            raise typer.BadParameter("give the target with either -m or -hf, not both")
        if self.model_draft is not None and self.hf_repo_draft is not None:
            raise typer.BadParameter("give the drafter with either -md or -hfd, not both")


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are chosen; fields that are not given come from the model's generation config."""

    temperature: Annotated[
        float | None,
        typer.Option("--temp", "--temperature", metavar="T", help="0 is greedy."),
    ] = None
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="K", help="Most probable tokens; 0 is off.")
    ] = None
    top_p: Annotated[
        float | None, typer.Option("--top-p", metavar="P", help="Their mass; 1 is off.")
    ] = None
    min_p: Annotated[
        float | None,
        typer.Option("--min-p", metavar="P", help="Share of the best one's probability; 0 is off."),
    ] = None
    repeat_penalty: Annotated[
        float | None, typer.Option("--repeat-penalty", metavar="X", help="1 is off.")
    ] = None
    repeat_last_n: Annotated[
        int | None,
        typer.Option(
            "--repeat-last-n", metavar="N", help="Tokens that penalties look at; -1 is all."
        ),
    ] = None
    presence_penalty: Annotated[
        float | None, typer.Option("--presence-penalty", metavar="X", help="0 is off.")
    ] = None
    frequency_penalty: Annotated[
        float | None, typer.Option("--frequency-penalty", metavar="X", help="0 is off.")
    ] = None
    logit_bias: Annotated[
        list[str] | None,
        typer.Option(
            "-l",
            "--logit-bias",
            metavar="ID(+|-)BIAS",
            help="Added to a token's logit: 15043+1; 15043-inf bans. May be repeated.",
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Makes a sampled text again.")
    ] = None
    rule: Annotated[
        SpecRule | None,
        typer.Option("--spec-rule", help="How drafts are verified. [default: coupled]"),
    ] = None

    def asked(self) -> dict[str, object]:
        """Fields of `settings.Sampling` that were given."""
        given = {key: value for key, value in asdict(self).items() if value is not None}
        if self.logit_bias is not None:
            given["logit_bias"] = dict(_bias(text) for text in self.logit_bias)
        if self.seed == -1:  # llama.cpp's way to ask for any
            del given["seed"]
        if self.rule is not None:
            given["rule"] = self.rule.value
        return given


@dataclass(frozen=True)
class LimitOptions:
    """Where a text ends."""

    predict: Annotated[
        int,
        typer.Option(
            "-n",
            "--predict",
            "--n-predict",
            "--max-tokens",
            min=-1,
            metavar="N",
            help="Most new tokens; -1 leaves the context's limit.",
        ),
    ] = -1
    stop: Annotated[
        list[str] | None,
        typer.Option(
            "-r",
            "--stop",
            "--reverse-prompt",
            metavar="TEXT",
            help="Text that ends the answer. May be repeated.",
        ),
    ] = None
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Go on after the model's stop tokens.")
    ] = False

    def limits(self) -> Limits:
        """The same as settings."""
        most = None if self.predict == -1 else self.predict
        return Limits(max_tokens=most, stop=tuple(self.stop or ()), ignore_eos=self.ignore_eos)


@dataclass(frozen=True)
class WindowOptions:
    """How much of a draft is verified."""

    verify: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="auto|N",
            help="Drafted tokens to verify in a step. auto chooses anew in every step what is "
            "fastest here, and drafts nothing where that is; N is always N, 0 decodes plainly. "
            "[default: auto]",
        ),
    ] = None
    n_max: Annotated[
        int | None,
        typer.Option(
            "--spec-draft-n-max",
            "--draft-max",
            min=0,
            metavar="N",
            help="The same as --window N; with --window auto, at most N.",
        ),
    ] = None
    n_min: Annotated[
        int,
        typer.Option(
            "--spec-draft-n-min", "--draft-min", min=0, metavar="N", help="Drop shorter drafts."
        ),
    ] = 0
    p_min: Annotated[
        float,
        typer.Option(
            "--spec-draft-p-min",
            "--draft-p-min",
            metavar="P",
            help="End a draft where the drafter is less sure.",
        ),
    ] = 0.0

    def window(self) -> Window:
        """The same as settings."""
        if self.verify in (None, "auto"):
            auto = self.n_max is None or self.verify == "auto"
            return Window(self.n_max, self.n_min, self.p_min, auto)
        if not re.fullmatch(r"\d{1,9}", self.verify or ""):
            raise typer.BadParameter(f"--window {self.verify!r} is neither auto nor a whole number")
        if self.n_max is not None:
            raise typer.BadParameter(
                "give the window with --window or --spec-draft-n-max, not both"
            )
        return Window(int(self.verify or ""), self.n_min, self.p_min)


@dataclass(frozen=True)
class ChatOptions:
    """How a prompt becomes a conversation."""

    system: Annotated[
        str | None,
        typer.Option(
            "-s", "-sys", "--system", "--system-prompt", metavar="TEXT", help="System message."
        ),
    ] = None
    chat_template_kwargs: Annotated[
        str | None,
        typer.Option(
            "--chat-template-kwargs",
            metavar="JSON",
            help="""Further variables of the chat template: '{"enable_thinking": false}'.""",
        ),
    ] = None

    def template_kwargs(self) -> dict[str, object]:
        """The template's further variables."""
        if self.chat_template_kwargs is None:
            return {}
        try:
            given = json_text.parse(self.chat_template_kwargs)
        except ValueError as error:
            raise typer.BadParameter(f"--chat-template-kwargs is no JSON: {error}") from None
        if not isinstance(given, dict):
            raise typer.BadParameter("--chat-template-kwargs must be a JSON object")
        return given


def _bias(text: str) -> tuple[int, float]:
    """llama.cpp's ID+BIAS or ID-BIAS."""
    matched = re.fullmatch(r"(\d{1,20})([+-].+)", text)
    try:
        bias = float(matched[2]) if matched else math.nan
    except ValueError:
        bias = math.nan
    if matched is None or math.isnan(bias):
        raise typer.BadParameter(f"--logit-bias {text!r} is not ID+BIAS or ID-BIAS, as 15043+1")
    return int(matched[1]), bias
