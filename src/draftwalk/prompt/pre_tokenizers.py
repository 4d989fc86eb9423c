"""How byte-level BPE vocabularies cut a text into words before merging, by the name in the file.

The patterns are those that models were trained with; llama.cpp knows each under several names.
Oniguruma, which the tokenizers library matches with, follows a newer Unicode than llama.cpp: the
letters and numbers added since Unicode 15.0 are taken out of the classes again, so that ids agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from draftwalk.errors import CheckpointError

_NEWER_LETTERS = (
    r"\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65}"
    r"\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{11380}-\x{11389}\x{1138B}\x{1138E}"
    r"\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{13460}-\x{143FA}"
    r"\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF}\x{1E5D0}-\x{1E5ED}\x{1E5F0}"
)
_NEWER_NUMBERS = (
    r"\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{16130}-\x{16139}"
    r"\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1E5F1}-\x{1E5FA}"
)
_L = rf"[\p{{L}}&&[^{_NEWER_LETTERS}]]"
_N = rf"[\p{{N}}&&[^{_NEWER_NUMBERS}]]"
_OTHER = rf"[[^\s\p{{L}}\p{{N}}]{_NEWER_LETTERS}{_NEWER_NUMBERS}]"  # no space, letter or number
_JOINER = rf"[[^\r\n\p{{L}}\p{{N}}]{_NEWER_LETTERS}{_NEWER_NUMBERS}]"  # may precede a word

_SUFFIXES = r"'s|'t|'re|'ve|'m|'ll|'d"
_ANY_CASE_SUFFIXES = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_SPACES = r"\s+(?!\S)|\s+"

# `\s*[\r\n]+` where there is a newline to find at all: going back over millions of blanks one by
# one for it, Oniguruma gives up.
_LINES = r"(?=(?>[^\S\r\n]*)[\r\n])\s*[\r\n]+"

_GPT2 = rf"{_SUFFIXES}| ?{_L}+| ?{_N}+| ?{_OTHER}+|{_SPACES}"
_LLAMA3, _QWEN2 = (
    rf"{_ANY_CASE_SUFFIXES}|{_JOINER}?{_L}+|{digits}| ?{_OTHER}+[\r\n]*|{_LINES}|{_SPACES}"
    for digits in (rf"{_N}{{1,3}}", _N)
)


@dataclass(frozen=True)
class PreTokenizer:
    """One way of cutting a text into words.

    Args:
        names: what files call it; the first is ours.
        patterns: each cuts what the ones before left; matches and what is between them are words.
        whole_words: a word that is a token is taken as it is, without merging.
        add_bos: a prompt begins with the BOS token unless the file says otherwise.
    """

    names: tuple[str, ...]
    patterns: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False


PRE_TOKENIZERS = (
    PreTokenizer(
        (
            *("gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4"),
            *("mpt", "olmo", "jais", "trillion", "granite-docling"),
        ),
        (_GPT2,),
    ),
    PreTokenizer(
        (
            *("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"),
            *("minerva-7b", "mellum2"),
        ),
        (_N, _GPT2),
    ),
    PreTokenizer(
        (
            *("qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2"),
            *("stablelm2", "hunyuan", "solar-open"),
        ),
        (_QWEN2,),
    ),
    PreTokenizer(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
        (_LLAMA3,),
        whole_words=True,
        add_bos=True,
    ),
)


def pre_tokenizers() -> Mapping[str, PreTokenizer]:
    """Every pre-tokenizer under each of its names."""
    return {name: entry for entry in PRE_TOKENIZERS for name in entry.names}


def find_pre_tokenizer(name: str | None) -> PreTokenizer:
    """The pre-tokenizer of this name, or an error that lists those there are."""
    known = pre_tokenizers()
    if name is not None and name in known:
        return known[name]
    what = "names no pre-tokenizer" if not name else f"needs the pre-tokenizer {name!r}"
    ours = ", ".join(entry.names[0] for entry in PRE_TOKENIZERS)
    raise CheckpointError(f"the tokenizer {what}, which is not implemented", f"known: {ours}")
