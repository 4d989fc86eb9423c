"""What is understood of a drafter, and of how it belongs to a target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from draftwalk.cli.facts import Facts, stored
from draftwalk.cli.sizing import Sizing, state_bytes
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.config import DrafterConfig
from draftwalk.draft.dialect import FINGERPRINT_KEY
from draftwalk.draft.export import embedding_fingerprint
from draftwalk.draft.load import build_drafter, read_config
from draftwalk.draft.pairing import EMBEDDING
from draftwalk.draft.tables import warn_of_mask_row
from draftwalk.draft.whole import build_alone
from draftwalk.engine import Placement
from draftwalk.target.load import build_target
from draftwalk.weights import Checkpoint, GgufCheckpoint

_SELECTOR = "candidate_selector."


def drafter_facts(
    checkpoint: Checkpoint, placement: Placement, listed: Sequence[int] | None
) -> Facts:
    """Builds the drafter without memory, over tables of a target of its sizes, and tells about it.

    Args:
        checkpoint: the drafter's.
        placement: where it would compute.
        listed: tokens it may propose, in place of those that the checkpoint lists.

    Raises:
        UserError: it cannot be used.
    """
    config = read_config(checkpoint)
    ops = Sizing(placement)
    warn_of_mask_row(checkpoint)
    drafter = build_alone(checkpoint, ops, placement.context, listed, placement.draft_kv)
    tokens = drafter.context
    return {
        "file": str(checkpoint.path),
        "role": "drafter",
        "container": checkpoint.container,
        "kind": "DFlash" if config.selector is None else "DFlash2",
        "block": config.block,
        "taps": ", ".join(map(str, config.taps)),
        "mask_token": config.mask,
        "layers": config.sizes.depth,
        "attention": _windows(config),
        "width": config.sizes.width,
        "target_width": config.target_width,
        "vocabulary": config.sizes.vocabulary,
        **_draft_vocabulary(drafter),
        "own_embedding": "embed_tokens.weight" in checkpoint.tensors,
        "own_head": "lm_head.weight" in checkpoint.tensors,
        **_selector(checkpoint, config, ops),
        "window": _calibration(config),
        "stored": stored(checkpoint.tensors.values()),
        "memory": {
            "dtype": str(placement.dtype).removeprefix("torch."),
            "weights_bytes": ops.weights,
            "tokens": tokens,
            "kv_bytes": state_bytes(drafter.state, tokens),
        },
    }


def pairing_facts(
    target: Checkpoint,
    drafter: Checkpoint,
    placement: Placement,
    listed: Sequence[int] | None,
) -> Facts:
    """How the two fit.

    Raises:
        UserError: they do not.
    """
    ops = Sizing(placement)
    decoder = build_target(target, ops, placement.context)
    config = read_config(drafter)
    tables, depth, context = decoder.tables, decoder.depth, decoder.context
    build_drafter(drafter, ops, tables, depth, context, listed, placement.draft_kv)
    return {
        "vocabulary": f"{config.sizes.vocabulary} in both",
        "width": f"{decoder.width} in both",
        "taps": f"layers {', '.join(map(str, config.taps))} of {decoder.depth} (0 is the first)",
        "trained_on_this_embedding": _fingerprint(target, drafter),
    }


def _fingerprint(target: Checkpoint, drafter: Checkpoint) -> bool | str:
    wanted = drafter.metadata.get(FINGERPRINT_KEY) if isinstance(drafter, GgufCheckpoint) else None
    if wanted is None:
        return "unknown, the drafter does not say"
    return wanted == embedding_fingerprint(target.tensors[EMBEDDING])


def _draft_vocabulary(drafter: BlockDrafter) -> Facts:
    """How many tokens it may propose, where those are fewer."""
    words = drafter.vocabulary
    return {} if words is None else {"draft_vocabulary": len(words.ids)}


def _calibration(config: DrafterConfig) -> Facts | str:
    """Where the automatic window starts: how confidence and acceptance belong together."""
    known = config.calibration
    if known is None:
        return "not calibrated, learned while it runs"
    return {
        "outcomes": known.labels,
        "first_bias": round(known.bias[0], 3),
        "first_slope": round(known.slope[0], 3),
        "heat": round(known.heat, 3),
    }


def _windows(config: DrafterConfig) -> Facts:
    kinds = Counter(
        f"{'full' if window is None else f'window {window}'}, {'causal' if causal else 'two-way'}"
        for window, causal in zip(config.windows, config.causal, strict=True)
    )
    return {kind: f"in {layers} layers" for kind, layers in kinds.items()}


def _selector(checkpoint: Checkpoint, config: DrafterConfig, ops: Sizing) -> Facts:
    """The selector: what was learned, what the file stores, what is read in a step, apart."""
    selector = config.selector
    if selector is None:
        return {}
    tensors = checkpoint.tensors
    raw = {name: one for name, one in tensors.items() if name.startswith(_SELECTOR)}
    rank, vocabulary = selector.rank, config.sizes.vocabulary
    factored = f"{_SELECTOR}predecessor_factor" in raw
    gate = ops.bytes_of(raw[f"{_SELECTOR}hidden_projection.weight"])
    if factored:  # multiplied out at load, in the type of activations
        row = rank * ops.dtype.itemsize
        tables = 2 * vocabulary * row
    else:
        one, two = (raw[f"{_SELECTOR}{side}_codebook"] for side in ("predecessor", "successor"))
        row = ops.row_bytes(one)
        tables = ops.bytes_of(one) + ops.bytes_of(two)
    drafted = config.block - 1
    read_rows = selector.candidates * drafted + selector.candidates * (drafted - 1) + 1
    return {
        "convolution": {"taps": selector.taps, "channels_per_group": selector.group},
        "selector": {
            "candidates": selector.candidates,
            "rank": rank,
            "tables": "factors of the target's embedding" if factored else "whole",
            "learned_values": sum(one.size for one in raw.values()),
            "table_values": 2 * vocabulary * rank,
            "stored_bytes": sum(one.bytes for one in raw.values()),
            "resident_bytes": gate + tables,
            "read_per_step_bytes": gate + read_rows * row,
        },
    }
