"""From options to an engine."""

from __future__ import annotations

import warnings

import torch

from draftwalk.cli.getting import Pair, get_models
from draftwalk.cli.options import ModelOptions, PlaceOptions, StoreOptions
from draftwalk.cli.progress import downloading
from draftwalk.draft.whole import is_drafter
from draftwalk.engine import DEFAULT_CONTEXT, Engine, Placement, load
from draftwalk.errors import CheckpointError, UserError
from draftwalk.fetch import Store
from draftwalk.models import open_model

_MOST = 2**31 - 1  # a context that any model limits


def placement(options: PlaceOptions) -> Placement:
    """Where models compute."""
    dtype = {
        "float32": torch.float32,
        "float64": torch.float64,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
    }[options.dtype.value]
    context = DEFAULT_CONTEXT if options.ctx_size is None else options.ctx_size or _MOST
    return Placement(
        options.device,
        dtype,
        context,
        back_end=options.backend.value,
        threads=options.threads,
        kv=options.kv_type.value,
        draft_kv=None if options.draft_kv_type is None else options.draft_kv_type.value,
    )


def open_engine(models: ModelOptions, place: PlaceOptions, where: StoreOptions) -> Engine:
    """Loads the target and the drafter that are asked for."""
    if place.threads is not None:
        torch.set_num_threads(place.threads)
    with downloading() as progress:
        pair = get_models(models, Store(where.cache_dir, where.offline, progress))
    target, drafter = pair.target, None if pair.drafter is None else pair.drafter.path
    try:
        engine = load(target.path, drafter, placement(place), pair.plain, models.draft_vocabulary)
    except CheckpointError:
        _check_parts(pair)
        raise
    if place.ctx_size is not None and place.ctx_size > engine.context:
        warnings.warn(
            f"-c {place.ctx_size} is more than {target.name} was made for; "
            f"{engine.context} are used",
            stacklevel=1,
        )
    if not pair.plain and engine.drafter.block == 1:
        warnings.warn(
            f"no packaged drafter was trained for {target.name}, so it decodes plainly; "
            "-md FILE gives one, -md none silences this",
            stacklevel=1,
        )
    return engine


def _check_parts(pair: Pair) -> None:
    """Tells a model that was given for the other one, which is why it could not be loaded.

    Raises:
        UserError: target or drafter is the other's kind.
    """
    if is_drafter(open_model(pair.target.path)):
        raise UserError(
            f"{pair.target.name} is a drafter, which cannot answer by itself",
            "give it with -md, and its target with -m",
        )
    if pair.drafter is not None and not is_drafter(open_model(pair.drafter.path)):
        raise UserError(
            f"{pair.drafter.name} is no DFlash drafter", "draftwalk info says what it is"
        )
