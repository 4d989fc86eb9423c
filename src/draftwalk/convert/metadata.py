"""Keys of GGUF files that targets and drafters share, by what follows the architecture's name."""

from __future__ import annotations

from draftwalk.target.blueprint import Sizes
from draftwalk.weights import Typed
from draftwalk.weights.gguf_values import Value

Metadata = dict[str, Value | Typed]


def size_keys(sizes: Sizes) -> Metadata:
    """A model's dimensions."""
    return {
        "block_count": sizes.depth,
        "context_length": sizes.context,
        "embedding_length": sizes.width,
        "feed_forward_length": sizes.mlp_width,
        "vocab_size": sizes.vocabulary,
        "attention.head_count": sizes.heads,
        "attention.head_count_kv": sizes.kv_heads,
        "attention.key_length": sizes.head_dim,
        "attention.value_length": sizes.head_dim,
        "attention.layer_norm_rms_epsilon": float(sizes.norm_eps),
        "rope.dimension_count": sizes.head_dim,
    }
