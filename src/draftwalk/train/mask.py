"""The mask token of a new drafter: one the target knows and texts never have."""

from __future__ import annotations

from draftwalk.engine import Engine
from draftwalk.errors import UserError
from draftwalk.prompt.messages import Message
from draftwalk.prompt.vocabulary import Kind

_PROBE = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))


def reserved_token(engine: Engine) -> int:
    """The last token of the vocabulary that is special, ends nothing, and is in no conversation.

    Raises:
        UserError: there is none.
    """
    words = engine.tokenizer
    used = {*words.stop_ids, words.bos_id, words.eos_id}
    if engine.template is not None:
        used.update(engine.encode_chat(_PROBE))
    kinds = words.spelling.vocabulary.kinds
    known = min(len(kinds), engine.target.vocabulary)
    for token in reversed(range(known)):
        if kinds[token] in (Kind.CONTROL, Kind.UNUSED) and token not in used:
            return token
    raise UserError("the target's vocabulary has no reserved token", "give one: --mask ID")
