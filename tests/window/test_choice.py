"""The search finds what trying everything finds, whatever costs look like."""

import itertools
import math
import random

import pytest

from draftwalk.window.choice import best_windows, is_tried, survivals

STAIRS = {
    "flat": lambda rows: 4.0 + 0.01 * rows,
    "linear": lambda rows: 2.0 + rows,
    "stairs of 4": lambda rows: 3.0 + 2.0 * math.ceil(rows / 4),
    "stairs of 8": lambda rows: 5.0 * math.ceil(rows / 8),
    "a step down": lambda rows: 9.0 - 3.0 * (rows % 5 == 0) + 0.3 * rows,
}


def priced(price, tokens: int) -> list[float]:
    """The price of verifying up to so many tokens."""
    return [price(rows) for rows in range(tokens + 1)]


def brute(chains, certain, gaining, price) -> float:
    """Tokens per second of the best of all windows."""
    best = 0.0
    for windows in itertools.product(*(range(len(chain) + 1) for chain in chains)):
        tokens = gaining + sum(sum(c[:w]) for c, w in zip(chains, windows, strict=True))
        best = max(best, tokens / price(sum(windows)))
    return best


@pytest.mark.parametrize("name", STAIRS)
@pytest.mark.parametrize("texts", [1, 2, 3])
def test_as_good_as_trying_everything(name: str, texts: int) -> None:
    draw = random.Random(texts)
    for _ in range(30):
        chains = [survivals([draw.random() for _ in range(4)]) for _ in range(texts)]
        certain = texts + draw.choice((0, 0, 2))

        def price(rows: int, certain: int = certain) -> float:
            return 1.5 + STAIRS[name](certain + rows)

        prices = priced(price, 4 * texts)
        windows, paid = best_windows(chains, [0] * texts, certain, texts, prices)
        tokens = texts + sum(sum(c[:w]) for c, w in zip(chains, windows, strict=True))
        assert paid == price(sum(windows))
        assert tokens / paid == pytest.approx(brute(chains, certain, texts, price))


def test_it_looks_behind_the_first_descent() -> None:
    """One row more is dear, seven more cost no more than that."""
    chain = survivals([0.8] * 7)
    assert best_windows([chain], [0], 1, 1, [10.0] + [16.0] * 7)[0] == [7]


def test_nothing_is_verified_where_rows_are_too_dear() -> None:
    assert best_windows([survivals([0.5] * 4)], [0], 1, 1, [1.0, 2.0, 3.0, 4.0, 5.0])[0] == [0]
    assert best_windows([[]], [0], 1, 1, [1.0])[0] == [0]


def test_texts_compete_for_rows() -> None:
    sure, unsure = survivals([0.99] * 4), survivals([0.3] * 4)
    prices = priced(lambda rows: 4.0 + 0.9 * rows, 8)
    windows, _ = best_windows([unsure, sure], [0, 0], 2, 2, prices)
    assert windows[0] < windows[1] == 4


def test_long_contexts_make_rows_dear() -> None:
    chain = survivals([0.7] * 6)
    prices = priced(lambda rows: 4.0 + 0.2 * rows, 6)
    short, long = (
        best_windows([chain], [context], 1, 1, prices, 1e-3)[0][0] for context in (10, 2000)
    )
    assert long < short


def test_large_passes_come_in_few_sizes() -> None:
    """Each is a recording, and a cost to learn; small ones are all tried."""
    sizes = [rows for rows in range(1, 129) if is_tried(rows)]
    assert sizes[:16] == [*range(1, 17)]
    assert len(sizes) == 16 + 12 + 8
    draw = random.Random(3)
    chains = [survivals([draw.random() for _ in range(7)]) for _ in range(16)]
    prices = priced(lambda rows: 8.0 + 0.31 * rows, 16 * 7)
    windows, _ = best_windows(chains, [0] * 16, 16, 16, prices)
    rows = 16 + sum(windows)
    assert is_tried(rows) or sum(windows) in (0, 16 * 7)
    for window, chain in zip(windows, chains, strict=True):
        assert 0 <= window <= len(chain)
