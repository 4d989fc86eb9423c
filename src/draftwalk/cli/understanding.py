"""What `draftwalk info` finds out: about each file, and about a pair."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from draftwalk.cli import loading
from draftwalk.cli.back_end_facts import back_end_facts
from draftwalk.cli.drafter_facts import drafter_facts, pairing_facts
from draftwalk.cli.facts import Facts, lines
from draftwalk.cli.options import PlaceOptions, StoreOptions
from draftwalk.cli.progress import downloading
from draftwalk.cli.streams import say, write, write_json
from draftwalk.cli.target_facts import target_facts
from draftwalk.draft.vocabulary import read_list
from draftwalk.draft.whole import is_drafter
from draftwalk.engine import Placement
from draftwalk.errors import UserError
from draftwalk.fetch import Store, resolve
from draftwalk.models import open_model
from draftwalk.weights import GgufCheckpoint, SafetensorsFolder

Opened = GgufCheckpoint | SafetensorsFolder


def explain(
    files: Sequence[str],
    draft_vocabulary: Path | None,
    as_json: bool,
    place: PlaceOptions,
    where: StoreOptions,
) -> bool:
    """Prints what is understood of the files; whether all of them can be used, and together."""
    placement = loading.placement(place)
    listed = None if draft_vocabulary is None else read_list(draft_vocabulary)
    opened: list[Opened] = []
    found: list[Facts] = []
    well = True
    for file in files:
        try:
            checkpoint = open_model(_resolve(file, where))
            if is_drafter(checkpoint):
                found.append(drafter_facts(checkpoint, placement, listed))
            else:
                found.append(target_facts(checkpoint, placement))
            opened.append(checkpoint)
        except UserError as error:
            say(f"error: {error}")
            well = False
    facts: dict[str, object] = {"files": found, "back_end": back_end_facts(placement)}
    if listed is not None and well and not any(map(is_drafter, opened)):
        raise UserError(f"{draft_vocabulary} is for a drafter, but there is none")
    pair = _pair(opened)
    if pair is not None:
        facts["pairing"] = pairing = _pairing(*pair, placement, listed)
        well &= pairing["fits"] is True
    if found:
        _print(facts, as_json)
    return well


def _resolve(file: str, where: StoreOptions) -> Path:
    with downloading() as progress:
        return resolve(file, Store(where.cache_dir, where.offline, progress))


def _pair(opened: Sequence[Opened]) -> tuple[Opened, Opened] | None:
    """The target and the drafter, if there is one of each."""
    drafters = [checkpoint for checkpoint in opened if is_drafter(checkpoint)]
    targets = [checkpoint for checkpoint in opened if not is_drafter(checkpoint)]
    return (targets[0], drafters[0]) if len(targets) == len(drafters) == 1 else None


def _pairing(
    target: Opened, drafter: Opened, placement: Placement, listed: Sequence[int] | None
) -> Facts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a foreign fingerprint is among the facts
        try:
            return {"fits": True, **pairing_facts(target, drafter, placement, listed)}
        except UserError as error:
            say(f"error: {error}")
            return {"fits": False, "reason": str(error)}


def _print(facts: dict[str, object], as_json: bool) -> None:
    if as_json:
        write_json(facts)
        return
    files = facts.pop("files")
    assert isinstance(files, list)
    blocks = [lines(file) for file in files]
    for name, block in facts.items():
        assert isinstance(block, dict)
        blocks.append([name.replace("_", " "), *lines(block, 2)])
    write("\n\n".join("\n".join(block) for block in blocks) + "\n")
