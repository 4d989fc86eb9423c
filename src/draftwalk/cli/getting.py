"""Which target and drafter are asked for, and getting them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from draftwalk.cli.options import DEFAULT_MODEL, NO_DRAFTER, ModelOptions
from draftwalk.cli.streams import say
from draftwalk.fetch import (
    Found,
    Store,
    drafter_named_by,
    find,
    find_on_hub,
    is_trained_for,
    target_named_by,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Models that are here.

    Attributes:
        target: verifies.
        drafter: proposes; `None` leaves it to what is packaged, unless plain.
        plain: whether no drafter is wanted.
    """

    target: Found
    drafter: Found | None
    plain: bool


def get_models(options: ModelOptions, store: Store) -> Pair:
    """Gets the models that are asked for; what is left open, cards of the hub fill.

    Raises:
        UserError: one of them cannot be had.
    """
    options.check()
    plain = options.model_draft == NO_DRAFTER
    drafter = None if plain else _asked(options.model_draft, options.hf_repo_draft, store)
    target = _asked(options.model, options.hf_repo, store)
    if target is None and drafter is not None and drafter.repo is not None:
        named = target_named_by(drafter, store.hub())
        say(f"target: {named}, which the card of {drafter.name} names")
        target = find_on_hub(named, store)
    if target is None:
        target = find(DEFAULT_MODEL, store)
    if drafter is None and not plain:
        drafter = _of_card(target, store)
    elif drafter is not None:
        _warn_of_others(drafter, target, store)
    return Pair(target, drafter, plain)


def _asked(model: str | None, on_hub: str | None, store: Store) -> Found | None:
    if on_hub is not None:
        return find_on_hub(on_hub, store)
    return None if model is None else find(model, store)


def _of_card(target: Found, store: Store) -> Found | None:
    """The drafter that the target's card names."""
    named = drafter_named_by(target)
    if named is None:
        return None
    say(f"drafter: {named}, which the card of {target.name} names")
    return find_on_hub(named, store)


def _warn_of_others(drafter: Found, target: Found, store: Store) -> None:
    """Warns where the drafter's card names other targets."""
    if drafter.repo is None or target.repo is None:
        return
    if not is_trained_for(drafter, target, store.hub()):
        warnings.warn(
            f"the card of {drafter.name} names {' and '.join(drafter.card.base_models)}, "
            f"not {target.name}; expect less acceptance",
            stacklevel=1,
        )
