"""Reads the keys of a GGUF vocabulary back, beside the tokenizer that they were made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from draftwalk.errors import CheckpointError
from draftwalk.prompt import Tokenizer, tokenizer_from_gguf
from draftwalk.weights import Typed
from draftwalk.weights.gguf_values import Value

_SPECIALS_TRIED = 40


def plain(keys: Mapping[str, Value | Typed]) -> dict[str, Value]:
    """Keys as they come out of a file."""
    return {key: value.value if isinstance(value, Typed) else value for key, value in keys.items()}


def check_tokenizer(
    tokenizer: Tokenizer,
    keys: Mapping[str, Value | Typed],
    texts: Sequence[str],
    specials: Sequence[str],
    where: str,
) -> None:
    """The same ids, texts and stop tokens must come out.

    Args:
        tokenizer: of the source.
        keys: made from it.
        texts: that are tried.
        specials: special tokens, of which some are tried within a text.
        where: the source, for messages.

    Raises:
        CheckpointError: something differs.
    """
    made = tokenizer_from_gguf(plain(keys))
    for text in texts:
        ids = tokenizer.encode(text)
        if made.encode(text) != ids or made.decode(ids) != tokenizer.decode(ids):
            raise CheckpointError(
                f"{where}: the text {text!r} has other ids by a GGUF vocabulary",
                "this tokenizer cannot be converted",
            )
    for token in specials[:: max(1, len(specials) // _SPECIALS_TRIED)]:
        text = f"x{token}y {token}{token}\n"
        if made.encode(text, special=True) != tokenizer.encode(text, special=True):
            raise CheckpointError(f"{where}: {token!r} is another token by a GGUF vocabulary")
    for name, one, other in (
        ("add_bos", tokenizer.add_bos, made.add_bos),
        ("bos_id", tokenizer.bos_id, made.bos_id),
        ("stop_ids", sorted(tokenizer.stop_ids), sorted(made.stop_ids)),
    ):
        if one != other:
            raise CheckpointError(f"{where}: {name} is {one}, but {other} by a GGUF vocabulary")
