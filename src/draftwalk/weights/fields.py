"""Typed reading of configuration values, from JSON or GGUF, with errors that name the key.

A configuration is untrusted like the rest of a checkpoint: every value is checked for its kind and
range when it is read, whatever wrote it. Where a silently ignored setting would become wrong text,
`finish` refuses what was never read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

from draftwalk.errors import CheckpointError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D")

_MOST = 1 << 31
_MOST_INDEX = 1 << 53
_MOST_LAYERS = 1024
_MOST_PER_HEAD = 1 << 14
_MOST_PER_BLOCK = 1 << 10
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """What a value must be.

    Attributes:
        expected: for messages: "a positive integer".
        accept: the value, converted; `None` when it is of another kind.
    """

    expected: str
    accept: Callable[[object], T_co | None]


def _whole(value: object, least: int, most: int) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value < most
    return int(value) if fits and isinstance(value, int) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _positive(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _each(value: object, accept: Callable[[object], T | None]) -> list[T] | None:
    if not isinstance(value, list | tuple):
        return None
    items = [accept(item) for item in value]
    whole = [item for item in items if item is not None]
    return whole if len(whole) == len(items) else None


def _same(value: object) -> int | None:
    """One count, or a list that repeats it once per layer."""
    if isinstance(value, list) and value and all(item == value[0] for item in value):
        return _whole(value[0], 1, _MOST)
    return _whole(value, 1, _MOST)


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, dict) else None


COUNT = Kind("a positive integer", lambda v: _whole(v, 1, _MOST))
INDEX = Kind("an integer from 0", lambda v: _whole(v, 0, _MOST_INDEX))
HEAD = Kind("the size of a head", lambda v: _whole(v, 1, _MOST_PER_HEAD))
BLOCK = Kind(f"rows of a block, 2 to {_MOST_PER_BLOCK}", lambda v: _whole(v, 2, _MOST_PER_BLOCK))
LAYERS = Kind(f"a number of layers up to {_MOST_LAYERS}", lambda v: _whole(v, 1, _MOST_LAYERS + 1))
SAME_COUNT = Kind("a positive integer, the same for every layer", _same)
NUMBER = Kind("a finite number", _number)
POSITIVE = Kind("a positive number", _positive)
FLAG = Kind("true or false", _flag)
TEXT = Kind("a text", _text)
MAPPING = Kind("a table of settings", _mapping)
COUNTS = Kind("a list of positive integers", lambda v: _each(v, COUNT.accept))
INDEXES = Kind("a list of integers from 0", lambda v: _each(v, INDEX.accept))
FLAGS = Kind("a list of true and false", lambda v: _each(v, _flag))
TEXTS = Kind("a list of texts", lambda v: _each(v, _text))
NUMBERS = Kind("a list of finite numbers", lambda v: _each(v, _number))


@dataclass(frozen=True, slots=True)
class Fields:
    """A configuration to read from.

    Attributes:
        values: by key.
        where: the file, for messages.
        prefix: what the file puts in front of the keys, for messages.
        behind: where a key is looked for that is missing or null here.
    """

    values: Mapping[str, object]
    where: str
    prefix: str = ""
    behind: Fields | None = None
    _known: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def need(self, key: str, kind: Kind[T]) -> T:
        """The value of `key`.

        Raises:
            CheckpointError: it is missing, null, or not of the kind.
        """
        if self.raw(key) is None:
            self.fail(f"key {self.prefix}{key} is missing", f"it must be {kind.expected}")
        return self.read(key, kind)

    def get(self, key: str, kind: Kind[T], default: D) -> T | D:
        """The value of `key`, or the default when it is missing or null.

        Raises:
            CheckpointError: there is one that is not of the kind.
        """
        return default if self.raw(key) is None else self.read(key, kind)

    def read(self, key: str, kind: Kind[T]) -> T:
        """The value of a key that is there."""
        found = self.raw(key)
        value = kind.accept(found)
        if value is None:
            self.fail(f"key {self._name(key)} is {shown(found)}, expected {kind.expected}")
        return value

    def raw(self, key: str) -> object:
        """The value of `key` as it stands; `None` when it is missing."""
        self._known.add(key)
        behind = None if self.behind is None else self.behind.raw(key)
        value = self.values.get(key)
        return behind if value is None else value

    def table(self, key: str) -> Fields:
        """The settings in the table `key`, none where there is no table; finished on their own."""
        return Fields(self.get(key, MAPPING, {}), self.where, f"{self.prefix}{key}.")

    def refuse_unless(self, key: str, *allowed: object) -> None:
        """Refuses a key that is set to something that is not implemented."""
        value = self.raw(key)
        if value is not None and value not in allowed:
            self.fail(f"key {self._name(key)} = {shown(value)} is not implemented")

    def ignore(self, *keys: str) -> None:
        """Notes keys that say nothing here, because of what others say."""
        self._known.update(keys)
        if self.behind is not None:
            self.behind.ignore(*keys)

    def finish(self, harmless: Collection[str], neutral: Mapping[str, object]) -> None:
        """End of reading: no key may be left over that could change results.

        Args:
            harmless: keys that never do.
            neutral: values of further keys that change nothing; null never does.

        Raises:
            CheckpointError: names what is left.
        """
        if self.behind is not None:
            self.behind.finish(harmless, neutral)
        left = [
            f"{self.prefix}{key if key.isidentifier() else shown(key)} = {shown(value)}"
            for key, value in self.values.items()
            if key not in self._known
            and key not in harmless
            and value is not None
            and not (key in neutral and neutral[key] == value)
        ]
        if left:
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            self.fail(
                f"key {', '.join(left[:_SHOWN])}{more} is not implemented for this kind of model",
                "it may change the results, so it is not ignored",
            )

    def _name(self, key: str) -> str:
        """The key as the file has it, for messages."""
        if self.behind is not None and self.values.get(key) is None:
            return self.behind._name(key)
        return f"{self.prefix}{key}"

    def fail(self, what: str, hint: str = "") -> NoReturn:
        """One line that names the file."""
        raise CheckpointError(f"{self.where}: {what}", hint)


def shown(value: object) -> str:
    """An untrusted value, short enough for a message and on one line."""
    text = repr(value[:4]) if isinstance(value, str | list) and len(value) > 40 else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
