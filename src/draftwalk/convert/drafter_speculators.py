"""A drafter as a folder of the `speculators` library: flat settings, its decoder's in a table.

The layout is self-contained, so embedding and head are copied from the target where the drafter has
none of its own. What it has no key for stands in `transformer_layer_config` under Hugging Face's
name, where this package and vLLM look for it; `notes_for_speculators` tells which.
"""

from __future__ import annotations

from draftwalk.convert.drafter import EMBEDDING, HEAD, Drafter
from draftwalk.convert.drafter_folder import (
    DTYPES,
    backbone_keys,
    config_text,
    own_table,
    scale_keys,
    selector_keys,
    source_text,
)
from draftwalk.convert.folder_tensors import folder_tensors, source_of
from draftwalk.draft.config import DrafterConfig
from draftwalk.draft.speculators import KIND_KEY, usual_config
from draftwalk.errors import CheckpointError
from draftwalk.weights import PlannedTensor

_VERSION = "0.5.0"  # of the library whose layout this is
_OF_KINDS = {"dflash": "DFlashSpeculator", "dflash2": "DFlash2DraftModel"}
# Keys of config.json that stand at the top level of this layout, or nowhere.
_NOT_OF_DECODER = {"tie_word_embeddings"}


def speculators_config_text(drafter: Drafter, most: str, outtype: str | None) -> str:
    """config.json: the one the drafter came with, or a new one.

    Raises:
        CheckpointError: the source's configuration is not the file's.
    """
    source = source_of(drafter, "speculators")
    if source is None:
        return config_text(speculators_config(drafter, most))
    where = f"{drafter.where}: the configuration of its source"
    told = DrafterConfig.read(usual_config(source.config, where), where)
    return source_text(source, told, drafter, outtype)


def speculators_config(drafter: Drafter, most: str) -> dict[str, object]:
    """A new configuration.

    Raises:
        CheckpointError: the layout has no words for it.
    """
    config = drafter.config
    kind = "dflash" if config.selector is None else "dflash2"
    if kind == "dflash2" and config.head_rows != config.sizes.vocabulary:
        raise CheckpointError(
            f"{drafter.where}: a DFlash2 drafter with a head of {config.head_rows} tokens cannot "
            "be said in the speculators layout",
            "it knows heads of fewer tokens for DFlash only; --to hf and --to gguf keep it",
        )
    decoder = {k: v for k, v in backbone_keys(drafter).items() if k not in _NOT_OF_DECODER}
    method = {
        "proposal_type": "greedy",
        "speculative_tokens": config.block - 1,
        "verifier_accept_k": 1,
        "accept_tolerance": 0.0,
    }
    other = config.target_width != config.sizes.width
    source = {} if drafter.source is None else drafter.source.table()
    return {
        "architectures": [_OF_KINDS[kind]],
        KIND_KEY: kind,
        "speculators_version": _VERSION,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [method],
            "verifier": _verifier(drafter),
        },
        "aux_hidden_state_layer_ids": [tap + 1 for tap in config.taps],
        "block_size": config.block,
        "draft_vocab_size": config.head_rows,
        "mask_token_id": config.mask,
        **selector_keys(config),
        "sample_from_anchor": False,
        "sliding_window_non_causal": not any(config.causal),
        "target_hidden_size": config.target_width if other else None,
        "tie_word_embeddings": False,
        "torch_dtype": DTYPES[most],
        "transformer_layer_config": {**decoder, **scale_keys(config)},
        **own_table(config, source),
    }


def speculators_tensors(drafter: Drafter, outtype: str | None) -> tuple[list[PlannedTensor], str]:
    """The folder's tensors, embedding and head among them, and the format of most.

    Raises:
        CheckpointError: the target is needed.
    """
    tensors = dict(drafter.tensors)
    target = drafter.target
    tied = drafter.settings.get("tie_word_embeddings") is True
    if EMBEDDING in tensors and HEAD not in tensors and tied:
        tensors[HEAD] = tensors[EMBEDDING].named(HEAD)
    for name in (EMBEDDING, HEAD):
        if name in tensors:
            continue
        if target is None:
            raise CheckpointError(
                f"{drafter.where}: the speculators layout holds a copy of the target's "
                "embedding and head",
                "give the target: --target FILE",
            )
        shared = target.embedding if name == EMBEDDING else target.head
        tensors[name] = PlannedTensor.of(shared).named(name)
    return folder_tensors(drafter, tensors, source_of(drafter, "speculators"), outtype)


def notes_for_speculators(drafter: Drafter) -> list[str]:
    """What other readers of the layout do not look for."""
    config = drafter.config
    notes = []
    full = [causal for causal, w in zip(config.causal, config.windows, strict=True) if w is None]
    if any(full):
        notes.append(
            "layers with full attention are causal, which the layout has no key for: "
            "is_causal stands in transformer_layer_config"
        )
    if scale_keys(config):
        notes.append(
            f"{', '.join(scale_keys(config))}: the layout has no key for it, so it stands in "
            "transformer_layer_config"
        )
    return notes


def _verifier(drafter: Drafter) -> dict[str, object]:
    if drafter.target is None:
        return {"name_or_path": None, "architectures": []}
    checkpoint = drafter.target.checkpoint
    told = checkpoint.config.get("_name_or_path")
    name = told if isinstance(told, str) and told else checkpoint.path.name
    return {"name_or_path": name, "architectures": [checkpoint.architecture]}
