"""The loop on the native back end: every text is plain decoding's, token for token.

Drafts are right a scripted number of times, and a random DFlash2 drafter's, which are mostly wrong;
sequences share passes, prompts come in chunks.
"""

from __future__ import annotations

from functools import cache

import pytest

from draftwalk.draft import Drafter
from draftwalk.draft.load import build_drafter
from draftwalk.draft.none import EmptyDrafter
from draftwalk.loop import Loop
from draftwalk.sequence import Request
from draftwalk.settings import Limits, Sampling, Window
from draftwalk.target.decoder import Decoder
from draftwalk.window import Windows
from support.kernels import below
from support.models import ScriptedDrafter, drafter_checkpoint
from support.quantised import ARCHITECTURES, VOCABULARY, WIDTH, quantised_target
from support.restless import RestlessWindows

operations = pytest.importorskip("draftwalk.ops.native")
BLOCK, TOKENS = 8, 60
PROMPTS = [below(seed, VOCABULARY, size).tolist() for seed, size in enumerate((3, 70, 17, 64, 9))]
SAMPLINGS = {
    "greedy": Sampling(),
    "warm": Sampling(temperature=0.7, seed=5),
    "cut": Sampling(temperature=1.2, top_k=20, top_p=0.9, min_p=0.02, seed=6),
    "penalised": Sampling(temperature=0.8, repeat_penalty=1.3, presence_penalty=0.2, seed=7),
}


@cache
def target(architecture: str, kv: str = "f16") -> Decoder:
    return quantised_target("Q8_0", architecture, operations.NativeOperations(2, kv=kv))


def texts(
    of: Decoder,
    drafter: Drafter,
    sampling: Sampling,
    window: Window,
    chunk: int,
    together: bool,
    windows: Windows | None = None,
) -> list[list[int]]:
    """The new tokens of all prompts, answered together or one after the other."""
    loop = Loop(of, drafter, 512, chunk)
    loop.windows = windows or loop.windows
    sequences = []
    for prompt in PROMPTS:
        request = Request(tuple(prompt), sampling, Limits(max_tokens=TOKENS), window)
        sequences.append(loop.admit(request))
        while not together and loop.busy:
            loop.step()
    while loop.busy:
        loop.step()
    return [
        sequence.tokens[len(prompt) :] for sequence, prompt in zip(sequences, PROMPTS, strict=True)
    ]


@cache
def plain(architecture: str, sampling: str, kv: str = "f16") -> list[list[int]]:
    of = target(architecture, kv)
    return texts(of, EmptyDrafter(), SAMPLINGS[sampling], Window(), 512, together=False)


def random_drafter(of: Decoder, selector: bool) -> Drafter:
    checkpoint = drafter_checkpoint(
        VOCABULARY, WIDTH, (0, 1), selector, mlp=64, block=BLOCK, context=512
    )
    return build_drafter(checkpoint, of.ops, of.tables, of.depth, 512)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_scripted_drafts(architecture: str, sampling: str) -> None:
    expected = plain(architecture, sampling)
    known = {slot: [*PROMPTS[slot], *text] for slot, text in enumerate(expected)}
    for script, chunk in (((0, 7, 3, 1), 512), ((5, 2, 6, 4), 10)):
        drafter = ScriptedDrafter(known, script, VOCABULARY, block=BLOCK)
        got = texts(target(architecture), drafter, SAMPLINGS[sampling], Window(), chunk, True)
        assert got == expected


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("selector", [False, True], ids=["dflash", "dflash2"])
def test_random_drafters(architecture: str, sampling: str, selector: bool) -> None:
    of = target(architecture)
    for n_max, together in ((None, True), (3, False)):
        drafter = random_drafter(of, selector)
        got = texts(of, drafter, SAMPLINGS[sampling], Window(n_max=n_max), 33, together)
        assert got == plain(architecture, sampling)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_windows_that_are_chosen(architecture: str) -> None:
    """Drafting stops and goes on, features wait: every bit is as it was."""
    of = target(architecture)
    expected = plain(architecture, "warm")
    known = {slot: [*PROMPTS[slot], *text] for slot, text in enumerate(expected)}
    for seed in (None, 1, 2):
        for drafter in (
            ScriptedDrafter(known, (7, 0, 3, 0, 0, 1), VOCABULARY, block=BLOCK),
            random_drafter(of, selector=True),
        ):
            windows = None if seed is None else RestlessWindows(BLOCK - 1, seed)
            auto = Window(auto=True)
            assert texts(of, drafter, SAMPLINGS["warm"], auto, 33, True, windows) == expected


def test_kv_of_8_bits() -> None:
    expected = plain("gemma3_text", "warm", "q8")
    known = {slot: [*PROMPTS[slot], *text] for slot, text in enumerate(expected)}
    drafter = ScriptedDrafter(known, (7, 0, 4, 2), VOCABULARY, block=BLOCK)
    of = target("gemma3_text", "q8")
    assert texts(of, drafter, SAMPLINGS["warm"], Window(), 33, True) == expected
