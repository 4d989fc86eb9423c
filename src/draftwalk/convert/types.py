"""Which tensor of a file gets which block format: types, their mixes, fallbacks and overrides.

The rules are llama.cpp's, so that a file of a type here has the types a user of `llama-quantize`
knows it by: attention values and the second half of the MLP get more bits in some layers of a
`_K_M` mix, the head gets Q6_K, and a format of 256 values is replaced where 256 does not divide a
width. Only matrices are packed: norms, biases, sinks and convolution kernels stay F32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftwalk.errors import UserError
from draftwalk.quant import PackingFormat, formats_by_name

AUTO = "AUTO"
FLOATS = ("F32", "F16", "BF16")

_LAYER = re.compile(r"blk\.(\d+)\.")
_FALLBACK = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_LAST_RESORT = "F16"
_HEAD, _EMBEDDING = "output.weight", "token_embd.weight"


@dataclass(frozen=True, slots=True)
class Mix:
    """A type of file.

    Attributes:
        name: as users write it.
        format: of most matrices.
        number: llama.cpp's for `general.file_type`.
        more: format of the matrices that need more bits, in a mix.
    """

    name: str
    format: str
    number: int
    more: str = ""

    @property
    def quantised(self) -> bool:
        """Whether it is more than another type of float."""
        return self.format not in FLOATS


_MIXES = (
    *(Mix("F32", "F32", 0), Mix("F16", "F16", 1), Mix("BF16", "BF16", 32)),
    *(Mix("Q8_0", "Q8_0", 7), Mix("Q4_0", "Q4_0", 2), Mix("Q4_1", "Q4_1", 3)),
    *(Mix("Q5_0", "Q5_0", 8), Mix("Q5_1", "Q5_1", 9), Mix("Q6_K", "Q6_K", 18)),
    *(Mix("Q4_K_M", "Q4_K", 15, "Q6_K"), Mix("Q5_K_M", "Q5_K", 17, "Q6_K")),
)
MIXES: Mapping[str, Mix] = {mix.name: mix for mix in _MIXES}


@dataclass(frozen=True, slots=True)
class Override:
    """A format for the tensors a pattern is found in."""

    pattern: re.Pattern[str]
    format: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A format for one tensor, and the one that was wanted where it could not be had."""

    format: PackingFormat
    wanted: str


def mix_of(text: str) -> Mix:
    """The type a user asks for.

    Raises:
        UserError: there is none of that name.
    """
    found = MIXES.get(text.upper())
    if found is None:
        raise UserError(f"there is no type {text[:40]!r}", "types: " + ", ".join(MIXES))
    return found


def override_of(text: str) -> Override:
    """`PATTERN=TYPE`, the pattern a regular expression that is searched for in GGUF names.

    Raises:
        UserError: it is not of that form.
    """
    pattern, _, name = text.rpartition("=")
    known = {mix.format for mix in _MIXES}
    if not pattern or name.upper() not in known:
        raise UserError(
            f"--tensor {text[:80]!r} is not PATTERN=TYPE, as attn_v=Q8_0",
            "types of tensors: " + ", ".join(sorted(known)),
        )
    try:
        return Override(re.compile(pattern), name.upper())
    except re.error as error:
        raise UserError(f"--tensor {text[:80]!r}: the pattern is wrong: {error}") from None


def is_matrix(name: str, shape: Sequence[int]) -> bool:
    """Whether a tensor, under its GGUF name, may be packed."""
    return len(shape) == 2 and name.endswith(".weight") and not name.endswith("_norm.weight")


def packing(name: str) -> PackingFormat:
    """A format by name that can be written."""
    found = formats_by_name()[name]
    assert isinstance(found, PackingFormat), name
    return found


def choose(
    name: str,
    shape: Sequence[int],
    mix: Mix,
    depth: int,
    tied: bool,
    overrides: Sequence[Override] = (),
) -> Choice:
    """The format of one tensor.

    Args:
        name: its GGUF name.
        shape: rows first.
        mix: the type of the file.
        depth: layers of the model.
        tied: whether the embedding serves as head as well.
        overrides: the first whose pattern is found wins.
    """
    if not is_matrix(name, shape):
        return Choice(packing("F32"), "F32")
    for override in overrides:
        if override.pattern.search(name):
            return _that_divides(override.format, shape[-1])
    head = name == _HEAD or (tied and name == _EMBEDDING)
    if not mix.quantised:
        return Choice(packing(mix.format), mix.format)
    if head:
        return _that_divides(_of_head(mix, shape[-1]), shape[-1])
    more = mix.more and _wants_more(name, depth)
    return _that_divides(mix.more if more else mix.format, shape[-1])


def _of_head(mix: Mix, width: int) -> str:
    if width % packing(mix.format).BLOCK or mix.format == "Q8_0":
        return "Q8_0"
    return "Q6_K"


def _wants_more(name: str, depth: int) -> bool:
    """Whether a mix gives a matrix more bits: some kinds, in the first, last and every third."""
    layer = _LAYER.match(name)
    if layer is None or not name.endswith(("attn_v.weight", "ffn_down.weight")):
        return False
    n, eighth = int(layer[1]), depth // 8
    return n < eighth or n >= 7 * depth // 8 or (n - eighth) % 3 == 2


def _that_divides(wanted: str, width: int) -> Choice:
    """The format, or what llama.cpp takes where its blocks do not divide a row."""
    for name in (wanted, _FALLBACK.get(wanted, _LAST_RESORT), _LAST_RESORT):
        if width % packing(name).BLOCK == 0:
            return Choice(packing(name), wanted)
    raise AssertionError("every width holds floats")
