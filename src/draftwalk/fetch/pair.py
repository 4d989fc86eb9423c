"""Which target and drafter belong together, as their cards on the hub say.

A drafter's card names its target as `base_model`. A conversion's names what was converted, so names
are followed through drafters until they reach a model that is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from draftwalk.errors import UserError
from draftwalk.fetch.hub import NO_CARD, Card, Hub

_MOST_STEPS = 3  # from a conversion's card to the target


@dataclass(frozen=True, slots=True)
class Found:
    """A model that is here.

    Attributes:
        path: the file or folder.
        repo: owner/name, if it came from the hub.
        card: what its card says; nothing where it did not come from there.
    """

    path: Path
    repo: str | None = None
    card: Card = NO_CARD

    @property
    def name(self) -> str:
        """What to call it."""
        return self.path.name if self.repo is None else self.repo


def target_named_by(drafter: Found, hub: Hub) -> str:
    """The target that a drafter of the hub was trained for.

    Raises:
        UserError: its card names none, or several.
    """
    targets = _targets(drafter, hub)
    if len(targets) != 1:
        said = f"names {len(targets)}: {', '.join(targets)}" if targets else "does not say"
        raise UserError(
            f"which target {drafter.name} was trained for, its card {said}",
            "give the target with -hf or -m",
        )
    return targets[0]


def drafter_named_by(target: Found) -> str | None:
    """The drafter that a target's card names, the first if there are several."""
    return target.card.drafters[0] if target.card.drafters else None


def is_trained_for(drafter: Found, target: Found, hub: Hub) -> bool:
    """Whether the cards of two models of the hub leave it open that they belong together.

    They do not where the drafter's names other targets.
    """
    known = {target.repo, *target.card.base_models}
    if not known.isdisjoint(drafter.card.base_models):
        return True
    try:
        named = _targets(drafter, hub)
    except UserError:  # a card further on cannot be had: nothing speaks against the pair
        return True
    return not named or not known.isdisjoint(named)


def _targets(drafter: Found, hub: Hub) -> tuple[str, ...]:
    """Models a drafter's card leads to, through the cards of other drafters."""
    named = drafter.card.base_models
    for _ in range(_MOST_STEPS):
        glances = {repo: hub.look(repo) for repo in named}
        if not any(glance.is_drafter for glance in glances.values()):
            break
        onward = (
            glance.card.base_models if glance.is_drafter else (repo,)
            for repo, glance in glances.items()
        )
        named = tuple(dict.fromkeys(name for names in onward for name in names))
    return named
