"""A target's tokenizer as the keys of a GGUF file, whatever the target's files are.

A GGUF file's keys are copied. From a `tokenizer.json` they are made, and then read back: a
vocabulary that would not give the same ids and stop tokens is refused, because a text in other
ids gives answers that are only slightly wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

from draftwalk.convert.tokenizer_json import keys_from_folder, unused
from draftwalk.errors import CheckpointError
from draftwalk.prompt.from_gguf import NORMALIZER_KEY
from draftwalk.prompt.vocabulary import PREFIX, Kind
from draftwalk.weights import Checkpoint, Fields, GgufCheckpoint, SafetensorsFolder, Typed
from draftwalk.weights.fields import COUNT
from draftwalk.weights.gguf_values import Value, ValueType

_PER_TOKEN: Mapping[str, Value] = {"scores": 0.0, "token_type": int(Kind.UNUSED)}


def tokenizer_keys(checkpoint: Checkpoint) -> dict[str, Value | Typed]:
    """The `tokenizer.*` keys for a GGUF file that has this target's tokens.

    The vocabulary is as long as the target's embedding: where rows are left over, there are unused
    tokens for them.

    Raises:
        CheckpointError: a tokenizer that a GGUF file cannot say, or that is not implemented.
    """
    if isinstance(checkpoint, GgufCheckpoint):
        keys = _copied(checkpoint)
    else:
        assert isinstance(checkpoint, SafetensorsFolder), "there are two kinds of checkpoints"
        keys = keys_from_folder(checkpoint)
    rows = Fields(checkpoint.config, checkpoint.path.name).need("vocab_size", COUNT)
    _pad(keys, rows, checkpoint.path.name)
    return keys


def _copied(checkpoint: GgufCheckpoint) -> dict[str, Value | Typed]:
    metadata = checkpoint.metadata
    if PREFIX + "model" not in metadata:
        raise CheckpointError(f"{checkpoint.path.name} has no tokenizer")
    return {
        key: _typed(key, value)
        for key, value in metadata.items()
        if key.startswith("tokenizer.") or key == NORMALIZER_KEY
    }


def _typed(key: str, value: Value) -> Value | Typed:
    """A value that was read, so that it is written in its type again."""
    if key == PREFIX + "precompiled_charsmap":
        assert isinstance(value, list)
        signed = any(isinstance(item, int) and item < 0 for item in value)
        return Typed(ValueType.INT8 if signed else ValueType.UINT8, value)
    if isinstance(value, int) and not isinstance(value, bool) and value < 0:
        return Typed(ValueType.INT32, value)
    return value


def _pad(keys: dict[str, Value | Typed], rows: int, where: str) -> None:
    """Adds unused tokens until there is one for every row of the embedding."""
    tokens = keys.get(PREFIX + "tokens")
    if tokens is None:
        return  # the file has no vocabulary, only the number of its tokens
    assert isinstance(tokens, list), "checked when the file was read"
    if len(tokens) > rows:
        raise CheckpointError(
            f"{where} has {len(tokens)} tokens, but an embedding of {rows} rows",
            "tokenizer and weights are of different models",
        )
    missing = range(len(tokens), rows)
    taken = set(tokens)
    keys[PREFIX + "tokens"] = [*map(str, tokens), *(unused(i, taken) for i in missing)]
    for name, filler in _PER_TOKEN.items():
        values = keys.get(PREFIX + name)
        if isinstance(values, list):
            keys[PREFIX + name] = [*values, *[filler] * len(missing)]
