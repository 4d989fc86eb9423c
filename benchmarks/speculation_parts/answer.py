"""What arms are asked, and what an answer tells: counts and times by the arm's own clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PLAIN, DFLASH, DFLASH2 = "plain", "dflash", "dflash2"
LLAMA, LLAMA_DFLASH2 = "llama.cpp", "llama.cpp+dflash2"
ENGINES = (PLAIN, DFLASH, DFLASH2, LLAMA, LLAMA_DFLASH2)
OURS = (PLAIN, DFLASH, DFLASH2)
STEP_PARTS = ("draft", "verify", "choose", "commit", "observe")


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt and how it is to be answered.

    Attributes:
        prompt: token ids, rendered by the chat template.
        temperature: 0 is greedy; no other filter applies.
        seed: of the noise.
        tokens: at most so many new ones.
    """

    prompt: tuple[int, ...]
    temperature: float
    seed: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Attributes:
        tokens: the new ones, a stop token included.
        prompt_s: seconds until the first of them was there.
        decode_s: seconds from the first to the last.
        steps: passes of the target that gave the tokens after the first.
        verified: those in which a draft was verified.
        drafted: drafted tokens that were verified.
        accepted: of these, the ones that stand in the text.
        parts_s: seconds of the steps by `STEP_PARTS`; empty where an engine does not tell.
        windows: how often so many tokens were verified; empty where an engine does not tell.
    """

    tokens: tuple[int, ...]
    prompt_s: float
    decode_s: float
    steps: int
    verified: int = 0
    drafted: int = 0
    accepted: int = 0
    parts_s: Mapping[str, float] = field(default_factory=dict)
    windows: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arm:
    """One engine with one setting.

    Attributes:
        name: of the arm.
        engine: one of `ENGINES`; the best of its arms stands for it.
        ask: answers a question; nothing else runs meanwhile.
        window: tokens verified at most in a step; `None` for an automatic window.
        target: what the target's matrices are stored in.
    """

    name: str
    engine: str
    ask: Callable[[Question], Answer]
    window: int | None = 0
    target: str = ""

    @property
    def ours(self) -> bool:
        """Whether its text must be that of plain decoding."""
        return self.engine in OURS

    @property
    def automatic(self) -> bool:
        """Whether the engine chooses the window."""
        return self.window is None
