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


def brute(chains, contexts, certain, gaining, price) -> float:
    """Tokens per second of the best of all windows."""
    best = 0.0
    for windows in itertools.product(*(range(len(chain) + 1) for chain in chains)):
        tokens = gaining + sum(sum(c[:w]) for c, w in zip(chains, windows, strict=True))
        places = sum(w * c for w, c in zip(windows, contexts, strict=True))
        best = max(best, tokens / price(sum(windows), places))
    return best


@pytest.mark.parametrize("name", STAIRS)
@pytest.mark.parametrize("texts", [1, 2, 3])
def test_as_good_as_trying_everything(name: str, texts: int) -> None:
    draw = random.Random(texts)
    for _ in range(30):
        chains = [survivals([draw.random() for _ in range(4)]) for _ in range(texts)]
        certain = texts + draw.choice((0, 0, 2))

        def price(rows: int, _places: int, certain: int = certain) -> float:
            return 1.5 + STAIRS[name](certain + rows)

        windows, paid = best_windows(chains, [0] * texts, certain, texts, price)
        tokens = texts + sum(sum(c[:w]) for c, w in zip(chains, windows, strict=True))
        assert paid == price(sum(windows), 0)
        assert tokens / paid == pytest.approx(brute(chains, [0] * texts, certain, texts, price))


def test_it_looks_behind_the_first_descent() -> None:
    """One row more is dear, seven more cost no more than that."""
    chain = survivals([0.8] * 7)
    price = lambda rows, _: 10.0 if rows == 0 else 16.0  # noqa: E731
    assert best_windows([chain], [0], 1, 1, price)[0] == [7]


def test_nothing_is_verified_where_rows_are_too_dear() -> None:
    assert best_windows([survivals([0.5] * 4)], [0], 1, 1, lambda rows, _: 1.0 + rows)[0] == [0]
    assert best_windows([[]], [0], 1, 1, lambda rows, _: 1.0)[0] == [0]


def test_texts_compete_for_rows() -> None:
    sure, unsure = survivals([0.99] * 4), survivals([0.3] * 4)
    price = lambda rows, _: 4.0 + 0.9 * rows  # noqa: E731
    windows, _ = best_windows([unsure, sure], [0, 0], 2, 2, price)
    assert windows[0] < windows[1] == 4


def test_long_contexts_make_rows_dear() -> None:
    chain = survivals([0.7] * 6)
    price = lambda rows, places: 4.0 + 0.2 * rows + 1e-3 * places  # noqa: E731
    short, long = (best_windows([chain], [context], 1, 1, price)[0][0] for context in (10, 2000))
    assert long < short


def test_large_passes_come_in_few_sizes() -> None:
    """Each is a recording, and a cost to learn; small ones are all tried."""
    sizes = [rows for rows in range(1, 129) if is_tried(rows)]
    assert sizes[:16] == [*range(1, 17)]
    assert len(sizes) == 16 + 12 + 8
    draw = random.Random(3)
    chains = [survivals([draw.random() for _ in range(7)]) for _ in range(16)]
    windows, _ = best_windows(chains, [0] * 16, 16, 16, lambda rows, _: 8.0 + 0.31 * rows)
    rows = 16 + sum(windows)
    assert is_tried(rows) or sum(windows) in (0, 16 * 7)
    for window, chain in zip(windows, chains, strict=True):
        assert 0 <= window <= len(chain)
