"""Which pre-tokenizer a `tokenizer.json` has: told by what it does, not by how it is written.

The same way of cutting words is written in many forms, and GGUF files know it by a name only. So
texts are cut by both, and every one must come out the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from draftwalk.prompt.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer

# Ordinary texts of many scripts, without long runs of one character.
SENTENCES = (
    *("", " ", "Hello world", " Hello  world ", "I'm sure we'LL go, they'd SAY 's.", "don't DON'T"),
    *("Es war 1984, nicht 2001!", "naïve façade, Ünïcödé", "e\u0301 a\u0308 o\u0302\u0323"),
    *("def f(x):\n    return x[0] + 1\n", "\tif a == b:\r\n\t\tpass", "x = {'a': [1, 2.5e-3]}"),
    *("日本語の文章。漢字かな交じり", "한국어 텍스트", "हिन्दी पाठ ३४", "العربية ١٢٣", "ไทย ภาษา"),
    *("Привет, мир!", "עברית", "我想在apple工作1314151天", "👩‍👩‍👧 🦙.cpp ✅"),
    *("a\u00a0b", "http://x.y/z?a=b&c=d#e", "<b>x</b> $5 + 6 ~ 7", "foo_bar fooBar"),
)
_PIECES = (
    *(
        "a",
        "the",
        "The",
        "ß",
        "Ω",
        "й",
        "日本",
        "の",
        "한",
        "ع",
        "ก",
        "हि",
        "é",
        "e\u0301",
        "\u0301",
    ),
    *("1", "23", "456", "7890", "½", "٣", "²", "'s", "'S", "'ll", "'", "!", "?!", "...", "=", "+"),
    *(
        "$",
        "^",
        "`",
        "~",
        "|",
        "<",
        "_",
        "-",
        "\uff08",
        "。",
        "「",
        "\u2018",
        "\uff0b",
        "👍",
        "€",
        "\u200d",
    ),
    *(" ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", " \n", "\n "),
)
_MIXTURES = 400
_NEAR = 0.9  # share of mixtures that must agree at least


@cache
def probes() -> Sequence[str]:
    """Texts that tell ways of cutting apart; always the same ones."""
    rng = random.Random(0)
    mixed = ("".join(rng.choices(_PIECES, k=rng.choice((2, 3, 5, 9)))) for _ in range(_MIXTURES))
    return (*SENTENCES, *mixed)


@dataclass(frozen=True)
class Recognised:
    """A pre-tokenizer that cuts as another does.

    Attributes:
        entry: it.
        exact: on every text that was tried; else only on ordinary ones.
    """

    entry: PreTokenizer
    exact: bool


def recognise(cut: Callable[[str], list[str]], whole_words: bool) -> Recognised | None:
    """The pre-tokenizer that cuts as this does, if there is one.

    Args:
        cut: a text to words, in the byte alphabet.
        whole_words: words that are tokens are taken without merging.
    """
    near: Recognised | None = None
    for entry in PRE_TOKENIZERS:
        if entry.whole_words != whole_words or not all(_agree(entry, cut, SENTENCES)):
            continue
        agreeing = _agree(entry, cut, probes())
        if all(agreeing):
            return Recognised(entry, exact=True)
        if sum(agreeing) > _NEAR * len(agreeing):
            near = Recognised(entry, exact=False)
    return near


def _agree(
    entry: PreTokenizer, cut: Callable[[str], list[str]], texts: Sequence[str]
) -> list[bool]:
    steps = entry.steps()
    return [cut(text) == [word for word, _ in steps.pre_tokenize_str(text)] for text in texts]
