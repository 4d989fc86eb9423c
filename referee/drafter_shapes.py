"""The random drafters that are recorded, and what each is asked to draft.

A config has the keys, and the places of the keys, of the published checkpoints: what belongs to the
drafter in `dflash_config`, what any Qwen3 model has at the top; early checkpoints have `block_size`
at the top.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Config = dict[str, object]


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; top-k and top-p count for DFlash only."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True)
class Round:
    """One draft: features that are new to the drafter, then a block of `rows` rows."""

    new_features: int
    rows: int


@dataclass(frozen=True)
class Case:
    """One drafter and its sequences, each a list of rounds.

    Args:
        name: the folder's name.
        config: the whole of config.json.
        sequences: what is asked; the context of a sequence grows from round to round.
        seed: of weights and inputs.
        stored: type of the weights in the file.
        tied: whether the target's head is its embedding table.
        samplings: settings at which q is recorded.
    """

    name: str
    config: Config
    sequences: tuple[tuple[Round, ...], ...]
    seed: int
    stored: str = "bfloat16"
    tied: bool = False
    samplings: tuple[Sampling, ...] = field(
        default=(Sampling(0.7), Sampling(1.0), Sampling(1.3, top_k=7), Sampling(0.8, 12, 0.9))
    )


SLIDING = "sliding_attention"
FULL = "full_attention"


def _config(version: int, nested: Config, top: Config) -> Config:
    """A config.json; keys with the value 'absent' are left out."""
    blocks = {
        "block_size": 8,
        "mask_token_id": 5,
        "target_layer_ids": [1, 3],
    }
    second: Config = {
        "conv_kernel_size": 2,
        "conv_group_size": 8,
        "selector_rank": 12,
        "selector_top_k": 4,
    }
    config: Config = {
        "architectures": ["DFlash2DraftModel" if version == 2 else "DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 96,
        "num_target_layers": 8,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-06,
        "max_position_embeddings": 512,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "use_sliding_window": False,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **top,
        "dflash_config": {**blocks, **(second if version == 2 else {}), **nested},
    }
    nested_config = config["dflash_config"]
    assert isinstance(nested_config, dict)
    config["dflash_config"] = {k: v for k, v in nested_config.items() if v != "absent"}
    return {key: value for key, value in config.items() if value != "absent"}


def _layers(*kinds: str, window: int, **top: object) -> Config:
    return {
        "num_hidden_layers": len(kinds),
        "layer_types": list(kinds),
        "use_sliding_window": True,
        "sliding_window": window,
        **top,
    }


# Enough rounds that a context is extended, and that a sliding window has moved on.
_ONE = ((Round(11, 8),),)
_TWO = ((Round(9, 8), Round(3, 8)),)
_LONG = ((Round(13, 8), Round(1, 8), Round(6, 8)),)


def _first(name: str, seed: int, **case: object) -> Case:
    return _case(1, name, seed, case)


def _second(name: str, seed: int, **case: object) -> Case:
    return _case(2, name, seed, case)


def _case(version: int, name: str, seed: int, case: dict[str, object]) -> Case:
    nested, top = case.pop("nested", {}), case.pop("top", {})
    assert isinstance(nested, dict)
    assert isinstance(top, dict)
    config = _config(version, nested, {"torch_dtype": case.get("stored", "bfloat16"), **top})
    case.setdefault("sequences", _TWO)
    return Case(name=f"dflash{'' if version == 1 else 2}-{name}", config=config, seed=seed, **case)


CASES: tuple[Case, ...] = (
    _first("plain", 101),
    _first(
        # The oldest layout: the block at the top, keys without meaning here, default taps; the mask
        # is the last row of the vocabulary.
        "top-level-keys",
        102,
        nested={"block_size": "absent", "target_layer_ids": "absent", "mask_token_id": 95},
        top={
            "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
            "block_size": 6,
            "bos_token_id": 1,
            "dtype": "float32",
            "eos_token_id": 2,
            "initializer_range": 0.02,
            "layer_types": [FULL] * 3,
            "max_window_layers": 3,
            "num_hidden_layers": 3,
            "num_target_layers": 12,
            "torch_dtype": "absent",
            "transformers_version": "4.57.1",
            "use_cache": True,
        },
        sequences=((Round(7, 6), Round(2, 6)),),
        stored="float32",
    ),
    _first(
        "five-layers-tied",
        103,
        nested={"target_layer_ids": [1, 3, 5, 2], "block_size": 16},
        top={"num_hidden_layers": 5, "intermediate_size": 40, "rope_theta": 1000000.0},
        sequences=((Round(20, 16), Round(5, 16)),),
        tied=True,
    ),
    _first(
        # No is_causal: the sliding layers are causal, the full one is not.
        "mixed-layers",
        104,
        top=_layers(SLIDING, SLIDING, FULL, window=9),
        sequences=_LONG,
    ),
    _first(
        "sliding-two-way",
        105,
        top=_layers(SLIDING, SLIDING, window=9, is_causal=False),
        sequences=_LONG,
    ),
    _first("full-causal", 106, top={"is_causal": True}),
    _first(
        # Both sides of the window cut inside the block.
        "window-in-block",
        107,
        top=_layers(SLIDING, FULL, window=3, is_causal=False),
        sequences=_LONG,
    ),
    _first(
        "scaled",
        108,
        nested={
            "output_multiplier": 0.4,
            "final_logit_softcapping": 2.5,
            "input_embedding_scale": 3.0,
        },
        stored="float32",
    ),
    _first("biased", 109, top={"attention_bias": True, "num_key_value_heads": 1}),
    _first(
        "short-blocks",
        110,
        sequences=((Round(5, 8), Round(2, 5), Round(4, 3), Round(2, 2)),),
    ),
    _first(
        "two-sequences",
        111,
        top=_layers(FULL, SLIDING, window=6),
        sequences=((Round(12, 8), Round(4, 8)), (Round(3, 8), Round(1, 8))),
    ),
    _second("plain", 201),
    _second(
        "one-layer",
        202,
        nested={"conv_kernel_size": 1, "target_layer_ids": "absent", "conv_group_size": 4},
        top={"num_hidden_layers": 1},
        sequences=_LONG,
    ),
    _second(
        "kernel-three",
        203,
        nested={"conv_kernel_size": 3, "conv_group_size": 16},
        top={
            "num_hidden_layers": 3,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0},
            "rope_scaling": "absent",
            "rope_theta": "absent",
        },
        stored="float32",
    ),
    _second(
        # A kernel longer than the last block, one group for the whole width.
        "kernel-four",
        204,
        nested={"conv_kernel_size": 4, "conv_group_size": 32, "block_size": 10},
        sequences=((Round(8, 10), Round(2, 4), Round(1, 3)),),
    ),
    _second(
        # As the published DFlash2 checkpoints: five sliding layers, two-way.
        "five-layers-sliding",
        205,
        nested={"target_layer_ids": [1, 2, 3, 4, 6], "selector_top_k": 8},
        top=_layers(*[SLIDING] * 5, window=12, is_causal=False, intermediate_size=40),
        sequences=_LONG,
    ),
    _second(
        # Every channel a group of its own; no is_causal with mixed layers.
        "group-one-mixed",
        206,
        nested={"conv_group_size": 1},
        top=_layers(SLIDING, FULL, window=7),
        sequences=_LONG,
    ),
    _second(
        "full-causal",
        207,
        nested={"selector_top_k": 6, "selector_rank": 1},
        top={"is_causal": True, "head_dim": 8},
        tied=True,
    ),
    _second(
        "causal-window-in-block",
        208,
        top=_layers(SLIDING, SLIDING, window=4, is_causal=True),
        sequences=_LONG,
    ),
    _second(
        "two-way-window-in-block",
        209,
        nested={"block_size": 12},
        top=_layers(SLIDING, FULL, SLIDING, window=5, is_causal=False),
        sequences=((Round(10, 12), Round(7, 12)),),
    ),
    _second("one-candidate", 210, nested={"selector_top_k": 1}),
    _second(
        "all-candidates",
        211,
        nested={"selector_top_k": 64, "selector_rank": 40},
        top={"vocab_size": 64},
        sequences=_ONE,
    ),
    _second(
        "scaled",
        212,
        nested={
            "output_multiplier": 2.5,
            "input_embedding_scale": 0.25,
            "selector_top_k": 16,
        },
        top={"final_logit_softcapping": 4.0, "vocab_size": 128},
    ),
    _second(
        "biased",
        213,
        top={"attention_bias": True, "hidden_size": 48, "num_attention_heads": 6},
        stored="float32",
    ),
    _second(
        "short-blocks",
        214,
        nested={"conv_kernel_size": 3},
        sequences=((Round(1, 8), Round(8, 6), Round(2, 4), Round(3, 2)),),
    ),
    _second(
        "two-sequences",
        215,
        top=_layers(SLIDING, FULL, window=6, num_hidden_layers=2),
        sequences=((Round(14, 8), Round(2, 8)), (Round(4, 8), Round(5, 8))),
        tied=True,
    ),
)
