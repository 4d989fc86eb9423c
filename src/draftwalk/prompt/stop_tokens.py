"""Which tokens end a generation by the model's own convention.

Files name their end-of-text token, but often not the one that ends a turn; so, as llama.cpp does,
tokens are also known by their text. Two liberties against llama.cpp: `</s>` counts by its text
only where the file types it as a control token (in the vocabularies of Gemma and Qwen it is the
HTML tag, and an answer with struck-out text must not end there), and where llama.cpp takes the
first of several candidates in the order of a hash table, all of them are taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from draftwalk.errors import CheckpointError
from draftwalk.prompt.vocabulary import Kind, Vocabulary

HTML_LOOKALIKE = "</s>"

END_TEXTS = frozenset(
    {
        *("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>"),
        *("<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>"),
        *("<end_of_turn>", "<end_of_utterance>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"),
        *("<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["),  # noqa: RUF001
        HTML_LOOKALIKE,
    }
)

# After these a fill-in-the-middle answer goes on with another file or with padding.
FILL_TEXTS: Mapping[str, frozenset[str]] = {
    "fim_pad_token_id": frozenset(
        {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"},
    ),
    "fim_rep_token_id": frozenset(
        {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}
    ),
    "fim_sep_token_id": frozenset({"<|file_sep|>"}),
}

# llama.cpp treats these as control tokens too, but they end nothing.
OTHER_FILL_TEXTS: Mapping[str, frozenset[str]] = {
    "fim_pre_token_id": frozenset(
        {
            *("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>"),  # noqa: RUF001
            *("<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"),
        }
    ),
    "fim_suf_token_id": frozenset(
        {
            *("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>"),  # noqa: RUF001
            *("<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"),
        }
    ),
    "fim_mid_token_id": frozenset(
        {
            *("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>"),  # noqa: RUF001
            *("<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"),
        }
    ),
}

SHOWN_TEXTS = frozenset({"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"})


def texts_that_end(ids: Mapping[str, int], named: Collection[str]) -> set[str]:
    """Token texts of this vocabulary that end a generation.

    Args:
        ids: the vocabulary's texts.
        named: keys for which the file names a token itself, so that none is looked for by text.
    """
    ends = {text for text in END_TEXTS if text in ids and _may_end(text, ids)}
    for key, texts in FILL_TEXTS.items():
        if key not in named:
            ends |= texts & ids.keys()
    return ends


def _may_end(text: str, ids: Mapping[str, int]) -> bool:
    """Whether the formats that this vocabulary is known to serve end with this text."""
    if text == "<|end|>":
        return not _ends_messages_only(ids)
    if text == HTML_LOOKALIKE:
        return not ids.keys() & {"<|tool_response>", "<|plamo:eos|>"}
    return True


def _ends_messages_only(ids: Mapping[str, int]) -> bool:
    """In the formats of gpt-oss and Solar `<|end|>` ends a message, and the answer goes on."""
    has_end, texts = "<|end|>" in ids, ids.keys()
    return has_end and ({"<|return|>", "<|call|>"} <= texts or {"<|calls|>", "<|flush|>"} <= texts)


def stop_ids(
    vocabulary: Vocabulary, ids: Mapping[str, int], named: Mapping[str, int]
) -> frozenset[int]:
    """Ids that end a generation: those the file names, and those known by their text.

    Args:
        vocabulary: token texts and kinds.
        ids: its texts' ids.
        named: the tokens that the file names under the keys of GGUF (`eos_token_id` and so on).
    """
    ends = {ids[text] for text in texts_that_end(ids, named)}
    lookalike = ids.get(HTML_LOOKALIKE)
    if lookalike is not None and vocabulary.kinds[lookalike] != Kind.CONTROL:
        ends.discard(lookalike)
    keys = ("eos_token_id", "eot_token_id", "eom_token_id", *FILL_TEXTS)
    return frozenset(ends | {named[key] for key in keys if key in named})


def special_kinds(
    vocabulary: Vocabulary, ids: Mapping[str, int], named: Collection[str]
) -> dict[int, Kind]:
    """Tokens that are looked for in a text before it is tokenized, with the kind that counts there.

    Control tokens are those the file types so and, whatever their type, those that llama.cpp knows
    by their text (conversions that forgot the type are common).
    """
    sought = (Kind.CONTROL, Kind.UNKNOWN, Kind.USER_DEFINED)
    kinds = {i: Kind(kind) for i, kind in enumerate(vocabulary.kinds) if kind in sought}
    control = set(texts_that_end(ids, named))
    for key, texts in OTHER_FILL_TEXTS.items():
        if key not in named:
            control |= texts & ids.keys()
    kinds |= {ids[text]: Kind.CONTROL for text in control}
    kinds |= {ids[text]: Kind.USER_DEFINED for text in SHOWN_TEXTS & ids.keys()}
    if _ends_messages_only(ids):
        kinds[ids["<|end|>"]] = Kind.USER_DEFINED
    if HTML_LOOKALIKE in ids and not _may_end(HTML_LOOKALIKE, ids):
        kinds.pop(ids[HTML_LOOKALIKE], None)
    return kinds


def generation_stops(generation: Mapping[str, object]) -> frozenset[int]:
    """The ids of `eos_token_id` in a generation config: one id, a list of them, or none."""
    value = generation.get("eos_token_id")
    if value is None:
        return frozenset()
    entries = value if isinstance(value, list | tuple) else [value]
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int) or entry < 0:
            raise CheckpointError(f"eos_token_id must be token ids, not {value!r}")
    return frozenset(entries)
