"""Rows split into pieces and factors into digits sum to the originals, and every sum of a piece is exact."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.models.integer_panels import EXACT, WIDEST, IntegerPanels, digits, pieces

ROWS = st.integers(1, 12).flatmap(
    lambda width: st.lists(st.lists(st.integers(-40, 40), min_size=width, max_size=width), min_size=1, max_size=5)
)


@given(ROWS, st.integers(40, 200))
@settings(deadline=None)
def test_pieces_sum_to_rows_within_the_bound(rows: list[list[int]], most: int) -> None:
    cut, owners = pieces(np.array(rows), most)
    total = cut[: len(rows)].tolist()
    for piece, row in zip(cut[len(rows) :].tolist(), owners, strict=True):
        total[row] = [a + b for a, b in zip(total[row], piece, strict=True)]

    assert total == rows
    assert all(sum(map(abs, row)) <= most for row in cut.tolist())
    assert set(owners) == {index for index, row in enumerate(rows) if sum(map(abs, row)) > most}


def test_only_rows_beyond_the_bound_are_copied() -> None:
    rows = np.array([[3, -4], [3, -4]])

    assert pieces(rows, 7)[0] is rows
    assert [part.tolist() if isinstance(part, np.ndarray) else part for part in pieces(rows[:1], 6)] == [
        [[3, 0], [0, -4]],
        [0],
    ]
    assert rows.tolist() == [[3, -4], [3, -4]]


@pytest.mark.parametrize(
    ("total", "made"), [(WIDEST - 1, 0), (WIDEST, 0), (WIDEST + 1, 1), (EXACT - 1, 16), (EXACT, 16), (EXACT + 1, 16)]
)
def test_digits_keep_four_bits_whatever_row_sums_to(total: int, made: int) -> None:
    row = np.full(1024, total // 1024)
    row[: total % 1024] += 1
    matrix = IntegerPanels(row[None], lambda rows: rows)

    assert len(matrix.owners) == made
    assert (EXACT - 1) // WIDEST == 15 and matrix.digit_bits(1 << 15) >= 4
    assert matrix.row_sum * (1 << matrix.digit_bits(1 << 15) - 1) < EXACT


@given(st.lists(st.integers(-(1 << 24), 1 << 24), min_size=1, max_size=8), st.integers(1, 12))
@settings(deadline=None)
def test_digits_are_small_and_add_up(values: list[int], bits: int) -> None:
    parts = digits(np.array(values, np.float32), bits)
    total = [sum(int(part[i]) << (bits * place) for place, part in enumerate(parts)) for i in range(len(values))]

    assert values == total
    assert all(np.abs(part).max() <= 1 << (bits - 1) for part in parts)


def test_repr_says_what_was_cut() -> None:
    def none(rows: np.ndarray) -> Any:
        return None

    assert repr(IntegerPanels(np.full((2, 3), 1 << 9), none)) == "<IntegerPanels of 2 rows and 0 pieces, row_sum=1536>"
