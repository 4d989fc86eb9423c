"""Other names that Hugging Face folders give to a drafter's tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from draftwalk.errors import CheckpointError
from draftwalk.weights.tensor import RawTensor

FEATURES = "fc.weight"  # joins the target's features: every drafter has it
_WHOLE = {
    "encoder.fc.weight": FEATURES,
    "encoder.output_norm_enc.weight": "hidden_norm.weight",
    "candidate_selector.predecessor_codebook.weight": "candidate_selector.predecessor_codebook",
    "candidate_selector.successor_codebook.weight": "candidate_selector.successor_codebook",
}
_SINK = re.compile(r"(layers\.\d+\.self_attn)\.(?:sinks|attention_sink_bias)(?:\.weight)?")


def usual_names(tensors: Mapping[str, RawTensor], where: str) -> dict[str, RawTensor]:
    """The tensors under the names the rest of this package knows.

    Raises:
        CheckpointError: a tensor is there under two names.
    """
    named: dict[str, RawTensor] = {}
    for name, raw in tensors.items():
        usual = usual_name(name)
        if usual in named:
            raise CheckpointError(f"{where}: tensor {name} is a second {usual}")
        named[usual] = raw if usual == name else replace(raw, name=usual)
    return named


def usual_name(name: str) -> str:
    """One name."""
    sink = _SINK.fullmatch(name)
    return f"{sink[1]}.sinks" if sink else _WHOLE.get(name, name)
