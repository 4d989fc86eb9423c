"""Find implementations by folder: a new format, architecture or drafter is one new file.

Every module of a folder declares what it implements in a constant of an agreed name and type; a
file whose name starts with an underscore is a helper, and so is one the caller lists. Mistakes in
the files themselves are our own and raise `TypeError`; an unknown name is the user's mistake.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from importlib import import_module
from typing import TypeVar

from draftwalk.errors import UserError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def find(package: str, constant: str, kind: type[T], helpers: Collection[str] = ()) -> list[T]:
    """All implementations of `kind` in a folder, in the order of the file names.

    Args:
        package: dotted name of the folder.
        constant: name that every module must define: one `kind`, or a tuple of them.
        kind: the type of an implementation.
        helpers: modules of the folder that implement nothing.
    """
    found: list[T] = []
    for info in pkgutil.iter_modules(import_module(package).__path__):
        if info.name.startswith("_") or info.name in helpers:
            continue
        members = vars(import_module(f"{package}.{info.name}"))
        if constant not in members:
            raise TypeError(f"{package}.{info.name} does not define {constant}")
        value = members[constant]
        for item in value if isinstance(value, tuple) else (value,):
            if not isinstance(item, kind):
                raise TypeError(f"{package}.{info.name}.{constant} is not a {kind.__name__}")
            found.append(item)
    return found


def index(items: Iterable[T], keys: Callable[[T], Iterable[K]]) -> dict[K, T]:
    """Items by their keys; two items with one key are a mistake."""
    table: dict[K, T] = {}
    for item in items:
        for key in keys(item):
            if key in table:
                raise TypeError(f"{key!r} is declared twice")
            table[key] = item
    return table


def pick(table: Mapping[str, T], name: str, what: str, error: type[UserError] = UserError) -> T:
    """The item called `name`.

    Raises:
        UserError: (or `error`) lists what there is, and the closest name.
    """
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name, table, n=1)
    known = ", ".join(sorted(table)) or "none"
    guess = f"did you mean {close[0]}? " if close else ""
    raise error(f"{what} {name!r} is not implemented", f"{guess}implemented: {known}")
