"""What engines read: a text's tokens, by the model's own tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

from draftwalk.errors import UserError
from draftwalk.models import open_model
from draftwalk.prompt.from_gguf import tokenizer_from_gguf
from draftwalk.prompt.tokenizer import Tokenizer
from draftwalk.weights import GgufCheckpoint


def read_text(path: Path) -> str:
    """A text file, or the first turns of a file with a JSON object on every line."""
    text = path.read_text(encoding="utf-8")
    if not text.startswith('{"'):
        return text
    return "\n\n".join(json.loads(line)["turns"][0] for line in text.splitlines())


def tokenizer_of(model: Path) -> Tokenizer:
    """A GGUF file's tokenizer."""
    checkpoint = open_model(model)
    assert isinstance(checkpoint, GgufCheckpoint), "models are files"
    return tokenizer_from_gguf(checkpoint.metadata)


def token_ids(model: Path, text: str, needed: int) -> list[int]:
    """The text's first tokens, with the model's BOS if it wants one."""
    return _first(tokenizer_of(model).encode_prompt(text), needed)


def chunks_of(model: Path, text: str, needed: int, longest: int) -> tuple[int, list[list[int]]]:
    """The first `needed` tokens in chunks of at most `longest`, each after a BOS of its own.

    Returns:
        How many tokens come before each chunk's text (0 or 1), and the chunks with them.
    """
    tokenizer = tokenizer_of(model)
    ids = _first(tokenizer.encode(text[: 16 * needed]), needed)
    bos = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
    room = longest - len(bos)
    return len(bos), [[*bos, *ids[at : at + room]] for at in range(0, needed, room)]


def _first(ids: list[int], needed: int) -> list[int]:
    if len(ids) < needed:
        raise UserError(f"the text has {len(ids)} tokens, {needed} are needed", "give a longer one")
    return ids[:needed]
