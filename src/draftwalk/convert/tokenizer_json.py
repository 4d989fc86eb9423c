"""The keys of a GGUF vocabulary made from a Hugging Face folder's `tokenizer.json`.

Two kinds are known to GGUF files: byte-level BPE, with merges and the name of a pre-tokenizer,
and SentencePiece-style BPE, with a score for every token. The second has no merges, so a token's
score is the rank of its first merge; where two ways to one token tie, llama.cpp takes the left
one and the tokenizers library the better pair, which shows in long runs of one character only.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from draftwalk.convert.tokenizer_check import check_tokenizer
from draftwalk.prompt import Tokenizer, tokenizer_from_folder
from draftwalk.prompt.from_gguf import NORMALIZER_KEY
from draftwalk.prompt.library import load_library
from draftwalk.prompt.recognition import SENTENCES, probes, recognise
from draftwalk.prompt.stop_tokens import generation_stops, stop_ids
from draftwalk.prompt.vocabulary import PREFIX, Kind, Vocabulary
from draftwalk.weights import Fields, SafetensorsFolder, Typed
from draftwalk.weights.fields import FLAG, INDEX, MAPPING, TEXT
from draftwalk.weights.gguf_values import Value
from draftwalk.weights.json_file import read_json_object

Keys = dict[str, Value | Typed]

_SPACE = "▁"
_FURTHER_STOPS = ("eot_token_id", "eom_token_id")
_SHOWN = 4


@dataclass(frozen=True)
class _Prefix:
    """Whether a space goes before a text: `always` also after special tokens."""

    there: bool
    always: bool


def keys_from_folder(folder: SafetensorsFolder) -> Keys:
    """The `tokenizer.*` keys of a folder's tokenizer; its own tokens only, without padding.

    Raises:
        CheckpointError: a GGUF file cannot say what the tokenizer does.
    """
    tokenizer = tokenizer_from_folder(folder.path, folder.generation)
    path = folder.path / "tokenizer.json"
    content = Fields(read_json_object(path), f"{folder.path.name}/tokenizer.json")
    vocabulary = tokenizer.spelling.vocabulary
    keys: Keys = {}
    if vocabulary.byte_level:
        made, texts = _byte_level(content, path.read_text(encoding="utf-8"))
        keys |= made
        prefix = _Prefix(there=False, always=False)
    else:
        prefix = _space_prefix(content)
        keys |= _sentencepiece(content, vocabulary, prefix)
        texts = SENTENCES
    keys[PREFIX + "tokens"] = _texts(vocabulary)
    keys[PREFIX + "token_type"] = [int(kind) for kind in vocabulary.kinds]
    keys |= _named(folder, content, tokenizer)
    if tokenizer.chat_template is not None:
        keys["tokenizer.chat_template"] = tokenizer.chat_template
    specials = _tried_specials(content, vocabulary, prefix)
    check_tokenizer(tokenizer, keys, texts, specials, content.where)
    return keys


def _model(content: Fields) -> Fields:
    """The model's table, of which nothing may be said that GGUF cannot."""
    model = content.table("model")
    model.refuse_unless("type", "BPE")
    model.refuse_unless("continuing_subword_prefix", "")
    model.refuse_unless("end_of_word_suffix", "")
    model.refuse_unless("dropout", 0)
    return model


def _merges(model: Fields) -> list[tuple[str, str]]:
    """Both spellings of the list: two texts, or one with a space between."""
    found = model.raw("merges")
    pairs: list[tuple[str, str]] = []
    for merge in found if isinstance(found, list) else []:
        halves = merge.split(" ") if isinstance(merge, str) else merge
        if len(halves) != 2 or any(" " in half for half in halves):
            model.fail(f"merge {merge!r} has a space in it")
        pairs.append((halves[0], halves[1]))
    return pairs


def _byte_level(content: Fields, source: str) -> tuple[Keys, Sequence[str]]:
    """The keys, and the texts that they must give the same ids for."""
    model = _model(content)
    library = load_library(source)
    cutter = library.pre_tokenizer
    whole_words = model.get("ignore_merges", FLAG, False)
    found = None
    if cutter is not None:
        found = recognise(
            lambda text: [word for word, _ in cutter.pre_tokenize_str(text)], whole_words
        )
    if found is None:
        content.fail(
            "it cuts words in a way that GGUF files have no name for here",
            "see the pre-tokenizers that are implemented",
        )
    keys: Keys = {
        PREFIX + "model": "gpt2",
        PREFIX + "pre": found.entry.names[0],
        PREFIX + "merges": [f"{left} {right}" for left, right in _merges(model)],
    }
    if _composes(content):
        keys[NORMALIZER_KEY] = "NFC"
    if not found.exact:
        warnings.warn(
            f"{content.where}: it cuts words almost as {found.entry.names[0]} does, but not in "
            "every mixture of scripts and blanks",
            stacklevel=2,
        )
    return keys, probes() if found.exact else SENTENCES


def _composes(content: Fields) -> bool:
    steps = _steps(content, "normalizer", "normalizers")
    others = [kind for step in steps if (kind := step.get("type")) != "NFC"]
    if others:
        content.fail(f"normalizer {others[0]!r} is nothing that a GGUF file can say")
    return bool(steps)


def _sentencepiece(content: Fields, vocabulary: Vocabulary, prefix: _Prefix) -> Keys:
    model = _model(content)
    merges = _merges(model)
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(merges):
        ranks.setdefault(left + right, rank)
    return {
        PREFIX + "model": "llama",
        PREFIX + "pre": "default",
        PREFIX + "scores": [-float(ranks.get(text, len(merges))) for text in vocabulary.tokens],
        PREFIX + "add_space_prefix": prefix.there,
    }


def _space_prefix(content: Fields) -> _Prefix:
    """What is done to spaces: they must become ▁, and one may be put before a text."""
    replaced = there = always = False
    for step in _steps(content, "normalizer", "normalizers"):
        kind = step.get("type")
        if kind == "Prepend" and step.get("prepend") == _SPACE:
            there = always = True
        elif kind == "Replace" and (step.get("pattern"), step.get("content")) == (
            {"String": " "},
            _SPACE,
        ):
            replaced = True
        else:
            content.fail(f"normalizer {kind!r} is nothing that a GGUF file can say")
    for step in _steps(content, "pre_tokenizer", "pretokenizers"):
        kind = step.get("type")
        if kind == "Metaspace" and step.get("replacement") == _SPACE:
            scheme = step.get("prepend_scheme", "always")
            replaced = True
            there = there or scheme != "never"
            always = always or scheme == "always"
        elif kind != "Split" or step.get("pattern") != {"String": " "} or not replaced:
            content.fail(f"pre_tokenizer {kind!r} is nothing that a GGUF file can say")
    if not replaced:
        content.fail("it does not write spaces as ▁")
    return _Prefix(there, always)


def _steps(content: Fields, key: str, inner: str) -> list[Mapping[str, object]]:
    """The steps of a part of the file, sequences opened up."""
    queue: list[object] = [content.get(key, MAPPING, None)]
    steps: list[Mapping[str, object]] = []
    while queue:
        step = queue.pop(0)
        if not isinstance(step, dict):
            continue
        if step.get("type") == "Sequence":
            found = step.get(inner)
            queue[:0] = found if isinstance(found, list) else []
        else:
            steps.append(step)
    return steps


def _texts(vocabulary: Vocabulary) -> list[str]:
    """Every token's text; ids that the file leaves out become unused tokens."""
    taken = set(vocabulary.tokens)
    return [text or unused(index, taken) for index, text in enumerate(vocabulary.tokens)]


def unused(index: int, taken: Container[object]) -> str:
    """The text of a token that is none."""
    text = f"[PAD{index}]"
    while text in taken:
        text = f"[{text}]"
    return text


def _named(folder: SafetensorsFolder, content: Fields, tokenizer: Tokenizer) -> Keys:
    """The tokens that have a part to play, by id."""
    vocabulary = tokenizer.spelling.vocabulary
    ids = {text: index for index, text in enumerate(vocabulary.tokens) if text}
    stops = sorted(generation_stops(folder.generation))
    eos = tokenizer.eos_id if tokenizer.eos_id is not None else next(iter(stops), None)
    unknown = content.table("model").get("unk_token", TEXT, None)
    found = {
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": eos,
        "unknown_token_id": None if unknown is None else ids.get(unknown),
        "padding_token_id": Fields(folder.generation, folder.path.name).get(
            "pad_token_id", INDEX, None
        ),
    }
    known = {} if eos is None else {"eos_token_id": eos}
    further = sorted(tokenizer.stop_ids - stop_ids(vocabulary, ids, known))
    if len(further) > len(_FURTHER_STOPS):
        content.fail(
            f"{len(further) + 1} stop tokens cannot be named in a GGUF file",
            "it has room for three",
        )
    found |= dict(zip(_FURTHER_STOPS, further, strict=False))
    keys: Keys = {PREFIX + name: index for name, index in found.items() if index is not None}
    keys[PREFIX + "add_bos_token"] = tokenizer.add_bos
    return keys


def _stripping(content: Fields) -> set[str]:
    """Special tokens that take the blanks around them along, which GGUF cannot say: warned of."""
    listed = content.raw("added_tokens")
    entries = listed if isinstance(listed, list) else []
    tokens = [token for token in entries if isinstance(token, dict)]
    found = {
        str(token.get("content"))
        for token in tokens
        if any(token.get(flag) is True for flag in ("lstrip", "rstrip", "single_word"))
    }
    if found:
        warnings.warn(
            f"{content.where}: {', '.join(sorted(found)[:_SHOWN])} take blanks around them along "
            "(lstrip, rstrip or single_word); in a GGUF file they do not",
            stacklevel=2,
        )
    return found


def _tried_specials(content: Fields, vocabulary: Vocabulary, prefix: _Prefix) -> list[str]:
    """Special tokens that are the same in both kinds of files; of what is lost is warned."""
    but = _stripping(content)
    if prefix.there and not prefix.always:
        warnings.warn(
            f"{content.where}: a space goes before a text only where it begins; by a GGUF file "
            "also after every special token",
            stacklevel=2,
        )
        return []
    return [
        text
        for text, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
        if kind in (Kind.CONTROL, Kind.USER_DEFINED) and text not in but
    ]
