"""GGUF's tensor names and Hugging Face's, in both directions.

`{i}` stands for the number of a layer. Names are whole, `.weight` included, because GGUF and
Hugging Face do not leave it out at the same places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_GGUF_LAYER = re.compile(r"blk\.(0|[1-9][0-9]{0,4})\.")
_CANONICAL_LAYER = re.compile(r"(?<![a-z_])layers\.(0|[1-9][0-9]{0,4})\.")

_MODEL = {"token_embd": "embed_tokens", "output_norm": "norm"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_PLAIN = {"output": "lm_head", "rope_freqs": "rope_freqs"}


def common_names(prefix: str) -> dict[str, str]:
    """What every architecture shares unless it says otherwise: GGUF name to canonical name."""
    pairs = [(gguf, prefix + name) for gguf, name in _MODEL.items()]
    pairs += [
        (f"blk.{{i}}.{gguf}", f"{prefix}layers.{{i}}.{name}") for gguf, name in _LAYER.items()
    ]
    pairs += list(_PLAIN.items())
    return {
        f"{gguf}.{part}": f"{name}.{part}" for gguf, name in pairs for part in ("weight", "bias")
    }


class NameMap:
    """Translates names.

    Args:
        names: GGUF pattern to canonical pattern. Of two GGUF names for one tensor, the first is
            the one to write.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._canonical = dict(names)
        self._gguf: dict[str, str] = {}
        for gguf, canonical in names.items():
            self._gguf.setdefault(canonical, gguf)

    def canonical(self, gguf: str) -> str | None:
        """The canonical name of a tensor of a GGUF file, if it has one."""
        return _translate(gguf, _GGUF_LAYER, self._canonical)

    def gguf(self, canonical: str) -> str | None:
        """The name to write to a GGUF file, if there is one."""
        return _translate(canonical, _CANONICAL_LAYER, self._gguf)


def _translate(name: str, layer: re.Pattern[str], table: Mapping[str, str]) -> str | None:
    match = layer.search(name)
    if match is None:
        return table.get(name)
    pattern = f"{name[: match.start(1)]}{{i}}{name[match.end(1) :]}"
    found = table.get(pattern)
    return None if found is None else found.replace("{i}", match[1])
