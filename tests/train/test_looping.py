from __future__ import annotations

from draftwalk.train.looping import LoopWatch, loop_start


def test_a_text_without_repetition_does_not_loop() -> None:
    assert loop_start(range(500)) is None


def test_a_loop_begins_after_its_first_repetition() -> None:
    """Once is no loop: what is kept ends with the second time round."""
    circle = list(range(100, 110))
    text = [*range(30), *circle * 6]
    start = loop_start(text)
    assert start is not None
    assert 30 + len(circle) <= start <= 30 + 2 * len(circle)
    assert loop_start(text[: 30 + 2 * len(circle)]) is None


def test_a_single_token_said_again_and_again_loops() -> None:
    assert loop_start([5] * 40) is not None
    assert loop_start([5] * 11) is None


def test_watching_token_by_token_finds_the_same() -> None:
    text = [1, 2, 3, *([7, 8, 9, 10] * 20)]
    watch = LoopWatch()
    seen = next(n for n, token in enumerate(text) if watch.push([token]))
    assert watch.start == loop_start(text) == loop_start(text[: seen + 1])
    assert loop_start(text[:seen]) is None
