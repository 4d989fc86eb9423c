"""What a pass has to do at least: bytes to read, and products by kind of weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cpu_parts.machine import Machine
from draftwalk.models import open_model
from draftwalk.target.load import read_blueprint
from draftwalk.weights import RawTensor

_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_WIDE = ("Q8_0", "IQ4_NL", "IQ4_XS")  # the levels of the last two take 8 bits
_FLOATS = ("F32", "F16", "BF16", "F64")
_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class Work:
    """Of one pass over a model.

    Attributes:
        file_bytes: of the whole file.
        read_bytes: of the tensors that every pass reads; an embedding that is not the head is not.
        macs: products of one row in all matrices, by kind: "narrow", "wide", "float".
        kv_bytes_per_place: of K/V in fp16, all layers.
        formats: how many tensors each block format has.
    """

    file_bytes: int
    read_bytes: int
    macs: Mapping[str, int]
    kv_bytes_per_place: int
    formats: Mapping[str, int]

    @staticmethod
    def of(path: Path) -> Work:
        """Counts a checkpoint."""
        checkpoint = open_model(path)
        sizes = read_blueprint(checkpoint)[0].sizes
        used = dict(checkpoint.tensors)
        if _HEAD in used:
            used.pop(_EMBEDDING)
        macs: Counter[str] = Counter()
        for raw in used.values():
            if len(raw.shape) == 2:
                macs[kind_of(raw)] += raw.size
        return Work(
            file_bytes=path.stat().st_size,
            read_bytes=sum(raw.bytes for raw in used.values()),
            macs=dict(macs),
            kv_bytes_per_place=2 * sizes.depth * sizes.kv_heads * sizes.head_dim * _HALF_BYTES,
            formats=dict(Counter(raw.format.NAME for raw in checkpoint.tensors.values())),
        )

    def read_s(self, machine: Machine) -> float:
        """Seconds to read every weight once at the machine's bandwidth."""
        return self.read_bytes / machine.read_gb_s / 1e9

    def dot_s(self, machine: Machine, rows: int) -> float | None:
        """Seconds of the products of so many rows at the machine's rates, if these are known."""
        if any(kind not in machine.dot_gmac_s for kind in self.macs):
            return None
        return sum(
            rows * count / machine.dot_gmac_s[kind] / 1e9 for kind, count in self.macs.items()
        )


def kind_of(raw: RawTensor) -> str:
    """Which instruction sequence multiplies it: "narrow", "wide", or "float" for none of them."""
    name = raw.format.NAME
    return "float" if name in _FLOATS else "wide" if name in _WIDE else "narrow"
