"""A `tokenizer.json` runs in the tokenizers library; this file says what its tokens mean.

The library decodes whole texts only. Streaming needs the bytes of single tokens, so the decoder
that the file describes is recognised: byte-level, or SentencePiece style; others are refused by
name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from threading import Lock

from tokenizers import Tokenizer as Library

from draftwalk.errors import CheckpointError, PromptError
from draftwalk.prompt.panics import library_failures
from draftwalk.prompt.sentencepiece import SPACE
from draftwalk.prompt.special import SHIELD, SpecialSplitter
from draftwalk.prompt.vocabulary import BYTE_TOKEN, Kind, Vocabulary

_MOST_HOLES = 1 << 16  # unused ids a vocabulary may have before its ids are not believed


class LibraryEncoder:
    """Text to ids by the tokenizers library.

    Args:
        library: the tokenizer, as the file describes it.
        splitter: finds special tokens in a shielded text, which the library would not understand.
    """

    def __init__(self, library: Library, splitter: SpecialSplitter) -> None:
        library.no_truncation()
        library.no_padding()
        self._library = library
        self._splitter = splitter
        self._lock = Lock()

    def encode(self, text: str, special: bool) -> list[int]:
        """Ids of a text; see `Tokenizer.encode`."""
        if not special or SHIELD not in text:
            return self._encode(text, special)
        return self._splitter.encode(text, True, partial(self._encode, special=False))

    def shield(self, text: str) -> str:
        """See `Tokenizer.shield`."""
        return self._splitter.shield(text)

    def _encode(self, text: str, special: bool) -> list[int]:
        with self._lock:  # whether special tokens stay text is a switch of the library's object
            self._library.encode_special_tokens = not special
            with library_failures(_not_encoded):
                return self._library.encode(text, add_special_tokens=False).ids

    def begins_with(self, bos_id: int) -> bool:
        """Whether the file's own post-processor puts this token before a text."""
        with library_failures(_unusable):
            return self._library.encode("", add_special_tokens=True).ids[:1] == [bos_id]


def load_library(source: str) -> Library:
    """Parses a `tokenizer.json`."""
    with library_failures(_unusable):
        return Library.from_str(source)


def _unusable(reason: str) -> CheckpointError:
    return CheckpointError(f"tokenizer.json cannot be used: {reason}")


def _not_encoded(reason: str) -> PromptError:
    return PromptError(f"tokenizer.json cannot encode this text: {reason}")


def library_vocabulary(library: Library, content: Mapping[str, object]) -> Vocabulary:
    """Texts and kinds of all tokens.

    Args:
        library: the tokenizer.
        content: the parsed file that it was made from.
    """
    ids = library.get_vocab(with_added_tokens=True)
    size = max(ids.values(), default=-1) + 1
    if size > len(ids) + _MOST_HOLES:
        raise CheckpointError(
            f"tokenizer.json has a token {size - 1}, but only {len(ids)} tokens in all"
        )
    tokens = [""] * size
    kinds = [int(Kind.UNUSED)] * size
    for text, index in ids.items():
        tokens[index], kinds[index] = text, Kind.NORMAL
    model = content.get("model")
    assert isinstance(model, dict), "the library has read the model from it"
    if model.get("byte_fallback") is True:
        for index, text in enumerate(tokens):
            if BYTE_TOKEN.fullmatch(text):
                kinds[index] = Kind.BYTE
    unknown = model.get("unk_token")
    if isinstance(unknown, str) and unknown in ids:
        kinds[ids[unknown]] = Kind.UNKNOWN
    byte_level = _is_byte_level(content)
    for index, token in library.get_added_tokens_decoder().items():
        if token.special:
            kinds[index] = Kind.CONTROL
        elif byte_level or SPACE not in tokens[index]:
            kinds[index] = Kind.USER_DEFINED  # else it is spelled as the model's own tokens are
    return Vocabulary(tokens, kinds, byte_level)


def special_splitter(vocabulary: Vocabulary) -> SpecialSplitter:
    """Finds the tokens that the file adds to its model's vocabulary."""
    added = (Kind.CONTROL, Kind.UNKNOWN, Kind.USER_DEFINED)
    kinds = {i: Kind(kind) for i, kind in enumerate(vocabulary.kinds) if kind in added}
    return SpecialSplitter(vocabulary.tokens, kinds)


def _is_byte_level(content: Mapping[str, object]) -> bool:
    """Whether tokens are spelled in the byte alphabet; an unknown decoder is refused."""
    steps = list(decoder_steps(content))
    kinds = [str(step.get("type")) for step in steps]
    if "ByteLevel" in kinds:
        unknown = set(kinds) - {"ByteLevel"}
    else:
        unknown = {kind for kind, step in zip(kinds, steps, strict=True) if not _is_plain(step)}
    if unknown or not kinds:
        name = ", ".join(sorted(unknown)) or "none"
        raise CheckpointError(
            f"the decoder of tokenizer.json ({name}) is not implemented",
            "known: ByteLevel, and Metaspace or Replace with ByteFallback, Fuse and Strip",
        )
    return "ByteLevel" in kinds


def _is_plain(step: Mapping[str, object]) -> bool:
    """Whether a decoder's step is one of those that make text of SentencePiece tokens."""
    kind = step.get("type")
    if kind == "Replace":
        return step.get("pattern") == {"String": SPACE} and step.get("content") == " "
    if kind == "Metaspace":
        return step.get("replacement") == SPACE
    if kind == "Strip":
        return strips_one_space(step)
    return kind in ("ByteFallback", "Fuse")


def strips_one_space(step: Mapping[str, object]) -> bool:
    """Whether a decoder's step takes one space from the beginning of a text, and nothing else."""
    if step.get("type") == "Metaspace":
        return step.get("prepend_scheme", "always") != "never"
    facts = (step.get("type"), step.get("content"), step.get("start"), step.get("stop"))
    return facts == ("Strip", " ", 1, 0)


def decoder_steps(content: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The steps of the file's decoder, sequences opened up."""
    queue = [content.get("decoder")]
    while queue:
        step = queue.pop(0)
        if not isinstance(step, dict):
            continue
        if step.get("type") == "Sequence":
            steps = step.get("decoders")
            queue[:0] = steps if isinstance(steps, list) else []
        else:
            yield step
