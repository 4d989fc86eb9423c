"""An answer that shows which of its tokens were drafted.

On a coloured terminal accepted tokens are green and rejected ones struck through; elsewhere they
stand in brackets, so that the text can be read without colour too.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from draftwalk.cli.streams import writing
from draftwalk.prompt.tokenizer import Tokenizer
from draftwalk.step import Step

_STYLES = {"accepted": "green", "rejected": "dim red strike", "bonus": ""}
_MARKS = {"accepted": ("[", "]"), "rejected": ("{-", "-}"), "bonus": ("", "")}
_DECODER = codecs.getincrementaldecoder("utf-8")


class DraftPainter:
    """Writes steps to a console.

    A character whose bytes are several tokens belongs to the token that completes it; one that
    none completes, to the last of them.

    Args:
        tokenizer: turns tokens into text; special tokens are shown.
        console: where to write.
    """

    def __init__(self, tokenizer: Tokenizer, console: Console) -> None:
        self._tokenizer = tokenizer
        self._console = console
        self._coloured = console.color_system is not None and not console.no_color
        self._decoder = _DECODER(errors="replace")
        self._last = "bonus"  # kind of the last token

    def legend(self) -> Text:
        """What the marks mean."""
        parts = (
            ("accepted", "accepted draft"),
            ("rejected", "dropped draft"),
            ("bonus", "own token"),
        )
        return Text(" ").join(self._painted(kind, meaning) for kind, meaning in parts)

    def paint(self, step: Step) -> None:
        """Writes what a step did."""
        with writing():
            for kind, text in self._parts(step):
                self._print(kind, text)
            self._console.file.flush()

    def finish(self) -> None:
        """Writes what is left of a character that no token has completed."""
        with writing():
            self._print(self._last, self._decoder.decode(b"", final=True))
            self._console.file.flush()

    def _print(self, kind: str, text: str) -> None:
        if text:
            self._console.print(self._painted(kind, text), end="", soft_wrap=True)

    def _parts(self, step: Step) -> Iterator[tuple[str, str]]:
        kept, own = step.tokens[: step.accepted], step.tokens[step.accepted :]
        dropped = step.draft[step.accepted :]
        yield "accepted", self._decode(kept, "accepted")
        yield (
            "rejected",
            self._tokenizer.decode(dropped, special=True).replace("\n", "\N{RETURN SYMBOL}"),
        )
        yield "bonus", self._decode(own, "bonus")

    def _decode(self, tokens: tuple[int, ...], kind: str) -> str:
        if tokens:
            self._last = kind
        spelled = (self._tokenizer.token_bytes(token, special=True) for token in tokens)
        return self._decoder.decode(b"".join(spelled))

    def _painted(self, kind: str, text: str) -> Text:
        if self._coloured:
            return Text(text, _STYLES[kind])
        before, after = _MARKS[kind]
        return Text(f"{before}{text}{after}")
