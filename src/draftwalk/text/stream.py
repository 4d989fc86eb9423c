"""Text of one answer as its tokens arrive.

What is handed out never has to be taken back: a character is shown when all its bytes are there,
and text that may be the beginning of a stop string is held until it is known not to be. All pieces
together are what decoding all tokens at once would give, cut before the first stop.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

from draftwalk.text.stop import StopFinder

_DECODER = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """Turns tokens into text and looks for stop strings.

    Args:
        token_bytes: the bytes of a token.
        stops: strings that end the text and are no part of it.
        strip_space: one space at the very beginning is left out, as `Tokenizer.decode` does where
            the tokenizer puts one there.
    """

    def __init__(
        self,
        token_bytes: Callable[[int], bytes],
        stops: Sequence[str] = (),
        strip_space: bool = False,
    ) -> None:
        self._token_bytes = token_bytes
        self._strip_space = strip_space
        self._decoder = _DECODER(errors="replace")
        self._finder = StopFinder(stops)
        self._certain: list[str] = []
        self._taken = 0
        self._held = ""
        self._finished = False
        self.stop: str | None = None
        """The stop string that ended the text."""

    def push(self, index: int) -> bool:
        """Adds a token; whether a stop string is complete with it. Later tokens change nothing."""
        if self.stop is not None or self._finished:
            return self.stop is not None
        data = self._token_bytes(index)
        if self._strip_space and data:
            self._strip_space = False
            data = data.removeprefix(b" ")
        self._append(self._decoder.decode(data))
        return self.stop is not None

    def take(self) -> str:
        """The text that has become certain since the last call."""
        piece = "".join(self._certain[self._taken :])
        self._taken = len(self._certain)
        return piece

    def finish(self) -> str:
        """No token follows: the text that was still held, after what `take` has not given yet."""
        if self.stop is None and not self._finished:
            self._append(self._decoder.decode(b"", final=True))
            self._certain.append(self._held)
            self._held = ""
        self._finished = True
        return self.take()

    @property
    def text(self) -> str:
        """All text that is certain, whether taken or not."""
        return "".join(self._certain)

    def _append(self, text: str) -> None:
        found = self._finder.feed(text)
        if found is None:
            whole = self._held + text
            certain = len(whole) - self._finder.held
            self._held = whole[certain:]
        else:
            end, self.stop = found
            whole = self._held + text[:end]
            certain = len(whole) - len(self.stop)
            self._held = ""
        self._certain.append(whole[:certain])
