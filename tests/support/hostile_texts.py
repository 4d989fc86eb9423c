"""Texts that tokenizers disagree about, the same for tests and referee scripts."""

from __future__ import annotations

import random
from collections.abc import Sequence

FIXED = (
    *("", " ", "  ", "\n", "\n\n", "\r\n", "\t", "\x00", "a\x00b", "\ufffd", "\U0010ffff"),
    *("▁", "a▁b", "▁▁ ▁", "Hello world", " Hello  world ", "     five", "trailing   "),
    *("I'm we'LL they'd 'S 's ' s", "don't DON'T y'all'd've", "ſ's 'ſ K'ſ"),  # noqa: RUF001
    *("1234567", "12 345 6789.01", "٣٤٥ ½ Ⅷ ² x²", "1\u00a0000"),
    *("naïve façade Ünïcödé", "e\u0301\u0301 a\u0308", "ﬁ ǅ ß İı"),
    *("👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽", "🦙🦙", "日本語の文章。漢字かな交じり", "한국어 텍스트", "हिन्दी पाठ"),
    *("العربية ١٢٣", "ไทย", "עברית", "𐐀𝔘𝕟𝕚", "\u1c89\U00010d4a\U00010d40 \U00013460"),
    *("======================", "-----", ".....", "aaaaaaaaaaaaaaaaab", "abababababa", "((()))"),
    *("    def f(x):\n        return x\n\n\n", "\tif\t\ttrue", "\r\r\n\n\r", " \n \n  \n"),
    *("\u00a0\u2003\u3000 x", "\u200b\u200d\ufeff", "\u2028\u2029\u0085x"),
    *("\x01\x02\x03\x04\x05\x06\x07\x13\x14\x16\x1d\x7f", "a\x04b\x06c\x13d", " \x04 hi\x13you"),
    *("http://x.y/z?a=b&c=d#e", '{"a": [1, 2.5e-3, null]}', "<html><b>x</b></html>"),
    *("</s>", "<s>", "x</s>y", "<unk>", "<0x0A>", "<0x41>", "<0xZZ>", "[EMPTY_0]"),
    *("<|im_start|>user\nhi<|im_end|>\n", "<|im_end|", "|im_end|>", "<<|im_end|>>"),
    *("\ud83e\udd99", "half \ud83e", "\udd99 half", "\udcff"),
)

WORDS = (
    *(" the", "The", "the", "ing", " world", "Hello", "'s", "'ll", " 12", "345", "0", "1"),
    *("==", "====", "--", "...", "  ", "    ", "\n", "\n\n", "\r\n", "\t", " \n", "aa", "aaaa"),
    *(
        "ab",
        "abab",
        "é",
        " naïve",
        "ü",
        "中",
        "日本",
        "の",
        "한",
        "ع",
        "👍",
        "🏽",
        "\u200d",
        "▁",
        "½",
    ),
    *("x²", "foo_bar", "();", " return", "></", " <b>", "}\n", "²", "\u0301", "\u00a0"),
    *("a\u1c89b", "'ſa", "1\U00010d40", " \u1c89", "é's", "'S"),  # noqa: RUF001
)


def hostile_texts(specials: Sequence[str], seed: int = 0, count: int = 120) -> list[str]:
    """The fixed texts, random mixtures, and special tokens whole, doubled and torn."""
    rng = random.Random(seed)
    texts = [*FIXED]
    for _ in range(count):
        parts = rng.choices(WORDS, k=rng.choice((2, 4, 8, 16)))
        parts += [_letter(rng) for _ in range(rng.randrange(6))]
        parts += rng.choices(specials, k=rng.randrange(3)) if specials else []
        rng.shuffle(parts)
        texts.append("".join(parts))
    for special in specials:
        texts += [f"x{special}y", f" {special} {special}{special}\n", special[:-1] + special[1:]]
    return texts


def _letter(rng: random.Random) -> str:
    """A code point of any plane, but no surrogate."""
    low, high = rng.choice(
        ((0x00, 0x80), (0x80, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000))
    )
    return chr(rng.randrange(low, high))
