"""K/V as operations see it: page pools in a back end's own layout, or plain tensors for training.

A sequence's table says which page holds places 64n to 64n + 63. Tables and pools are looked up when
an operation runs, not when it is recorded: both may have grown in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from torch import Tensor

from draftwalk.errors import UserError

PAGE = 64  # places per page: the tile of attention

KVType = Literal["f16", "q8"]  # how a back end with types of its own stores K/V


def only_f16(kind: KVType) -> None:
    """Refuses the other types, which the torch back end does not have.

    Raises:
        UserError: K/V are wanted in 8 bit.
    """
    if kind != "f16":
        raise UserError(
            f"K/V in {kind} are the native back end's, but torch computes here",
            "leave --kv-type and --draft-kv-type out",
        )


class PagePool(Protocol):
    """Pages of several layers; what a page holds, and in which type, is the back end's."""

    @property
    def pages(self) -> int:
        """How many there are."""

    @property
    def bytes(self) -> int:
        """Memory of all of them."""

    def grow(self, pages: int) -> None:
        """Makes there be `pages` of them; those there keep their numbers and contents."""

    def copy(self, source: int, into: int) -> None:
        """Copies a page, in all layers."""

    def read(self, pages: Sequence[int]) -> dict[str, Tensor]:
        """Copies of pages, to be written elsewhere later."""

    def write(self, pages: Sequence[int], saved: Mapping[str, Tensor]) -> None:
        """Writes what `read` returned; RollbackError if it does not fit."""


@dataclass(slots=True)
class PageTables:
    """Page numbers [slots, pages] int32, one row a sequence; replaced where it must grow."""

    values: Tensor


@dataclass(frozen=True, slots=True)
class KVPages:
    """One layer's K/V in a pool."""

    pool: PagePool
    layer: int
    tables: PageTables


@dataclass(frozen=True, slots=True)
class KVContext:
    """One layer's K/V outside of any pool: [S, G, D] keys and values per sequence, after rope."""

    contexts: Mapping[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KVTensors:
    """A context, and [T, G, D] keys and values of a pass's rows; gradients flow through both."""

    contexts: Mapping[int, tuple[Tensor, Tensor]]
    k: Tensor
    v: Tensor


class Memory(Protocol):
    """Where a model's attention layers keep their K/V during a pass."""

    def layer(self, index: int) -> KVPages | KVContext:
        """The memory of one layer."""
