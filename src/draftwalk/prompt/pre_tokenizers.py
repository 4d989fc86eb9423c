"""How byte-level BPE vocabularies cut a text into words before merging, by the name in the file.

The patterns are those that models were trained with; llama.cpp knows each under several names.
Oniguruma, which the tokenizers library matches with, follows a newer Unicode than llama.cpp: the
characters added since Unicode 15.0 are taken out of the classes again, so that ids agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.pre_tokenizers import PreTokenizer as Step
from tokenizers.pre_tokenizers import Sequence as Chain

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
_NEWER_MARKS = (
    r"\x{897}\x{10D69}-\x{10D6D}\x{10EFC}\x{113B8}-\x{113C0}\x{113C2}\x{113C5}"
    r"\x{113C7}-\x{113CA}\x{113CC}-\x{113D0}\x{113D2}\x{113E1}-\x{113E2}\x{11F5A}"
    r"\x{1611E}-\x{1612F}\x{1E5EE}-\x{1E5EF}"
)
_NEWER_PUNCTUATION = (
    r"\x{1B4E}-\x{1B4F}\x{1B7F}\x{10D6E}\x{113D4}-\x{113D5}\x{113D7}-\x{113D8}\x{11BE1}"
    r"\x{16D6D}-\x{16D6F}\x{1E5FF}"
)
_L = rf"[\p{{L}}&&[^{_NEWER_LETTERS}]]"
_N = rf"[\p{{N}}&&[^{_NEWER_NUMBERS}]]"
_P = rf"[\p{{P}}&&[^{_NEWER_PUNCTUATION}]]"
_LM = rf"[\p{{L}}\p{{M}}&&[^{_NEWER_LETTERS}{_NEWER_MARKS}]]"
_OTHER = rf"[[^\s\p{{L}}\p{{N}}]{_NEWER_LETTERS}{_NEWER_NUMBERS}]"  # no space, letter or number
_OTHER_M = (
    rf"[[^\s\p{{L}}\p{{M}}\p{{N}}]{_NEWER_LETTERS}{_NEWER_NUMBERS}{_NEWER_MARKS}]"  # nor mark
)
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
_QWEN35 = rf"{_ANY_CASE_SUFFIXES}|{_JOINER}?{_LM}+|{_N}| ?{_OTHER_M}+[\r\n]*|{_LINES}|{_SPACES}"

_LINE_ENDS = r"[\r\n]"
# Everything from Samaritan to the old end of the common ideographs, and Hangul. Blanks are in
# these ranges, but llama.cpp sees every blank past ASCII as one of ASCII.
_EAST = r"[[\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}]&&[^\s]]+"
# Letters with two cases, of Unicode 11.
_CASED = (
    r"["
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}"
    r"\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}"
    r"\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}"
    r"\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}"
    r"\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}"
    r"\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}"
    r"\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}"
    r"\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}"
    r"\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}"
    r"\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}"
    r"\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}"
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}"
    r"\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}"
    r"\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}"
    r"\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}"
    r"\x{1E900}-\x{1E943}"
    r"]"
)
_DEEPSEEK_MARKS = (
    r"[[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]&&[^\s]]"
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

    def steps(self) -> Chain:
        """The same as the tokenizers library's pre-tokenizer; words come in the byte alphabet."""
        steps: list[Step] = [Split(Regex(pattern), "isolated") for pattern in self.patterns]
        return Chain([*steps, ByteLevel(add_prefix_space=False, use_regex=False)])


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
    PreTokenizer(("qwen35",), (_QWEN35,)),
    PreTokenizer(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
        (_LLAMA3,),
        whole_words=True,
        add_bos=True,
    ),
    PreTokenizer(("smaug-bpe", "dbrx"), (_LLAMA3,)),
    PreTokenizer(
        ("falcon",), (rf"[\p{{P}}$+<=>^~|`&&[^{_NEWER_PUNCTUATION}]]+", _GPT2, "[0-9]{3}")
    ),
    PreTokenizer(
        ("deepseek-llm",),
        (_LINE_ENDS, rf"\s?{_CASED}+", rf"\s?{_DEEPSEEK_MARKS}+", r"\s+\z", _EAST, rf"{_N}+"),
    ),
    PreTokenizer(("deepseek-coder",), (_LINE_ENDS, rf"\s?{_L}+", rf"\s?{_P}+", _EAST, _N)),
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
