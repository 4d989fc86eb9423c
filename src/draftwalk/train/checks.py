"""Whether answers are what a run needs: asked before hours are spent on it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from draftwalk.draft.export import embedding_fingerprint
from draftwalk.draft.pairing import EMBEDDING
from draftwalk.errors import UserError
from draftwalk.train.features import check_taps
from draftwalk.train.shards import AnswerSet
from draftwalk.weights import Checkpoint


def check_target(data: AnswerSet, target: Checkpoint) -> None:
    """Checks that a target has answered.

    Raises:
        UserError: it was another one.
    """
    if data.facts.target != embedding_fingerprint(target.tensors[EMBEDDING]):
        raise UserError(
            f"{data.folder} holds answers of another target than {target.path.name}",
            "give the target that answered",
        )


def check_held_out(
    held: AnswerSet, data: AnswerSet, target: Checkpoint, taps: Sequence[int]
) -> None:
    """Checks that a drafter can be measured on answers held out; warns if it learns from them.

    Args:
        held: on these.
        data: what it learns from.
        target: who answered.
        taps: what the drafter listens to.

    Raises:
        UserError: the answers are of another target, lack features, or were all sampled.
    """
    check_target(held, target)
    check_taps(held.facts, taps)
    if not any(held.about(number).greedy for number in range(len(held))):
        raise UserError(
            f"all answers in {held.folder} were sampled, and greedy ones are measured",
            "make answers held out with --sampled 0",
        )
    learned = {data.about(number).seed for number in range(len(data))}
    both = sum(held.about(number).seed in learned for number in range(len(held)))
    if both:
        warnings.warn(
            f"{both} of the {len(held)} prompts held out are learned from as well, so what is "
            "measured says too much",
            stacklevel=2,
        )
