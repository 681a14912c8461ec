"""The one rounding of all element formats."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats.nearest import TIES, exact, magnitude, nearest
from tests.oracles.rounding import round_fraction

INTEGERS = np.arange(1 << 8)


@pytest.mark.parametrize("rounding", TIES)
@given(eighths=st.integers(-255 * 8, 255 * 8))
def test_on_integers_it_is_integer_rounding(rounding: str, eighths: int) -> None:
    value = Fraction(eighths, 8)

    assert nearest(np.array(float(value)), INTEGERS, rounding) == abs(round_fraction(value, rounding))


@pytest.mark.parametrize(
    ("rounding", "ranks"),
    [("half_even", [6, 6, 6, 6]), ("half_away", [7, 7, 6, 6]), ("half_up", [7, 6, 6, 5]), ("half_down", [6, 7, 5, 6])],
)
def test_ties_go_by_rank_direction_or_size(rounding: str, ranks: list[int]) -> None:
    """D-olive-7: 12 is midway between 8 (rank 6) and 16 (rank 7), 7 between 6 (rank 5) and 8."""
    magnitudes = np.array([0, 1, 2, 3, 4, 6, 8, 16])

    assert nearest(np.array([12.0, -12.0, 7.0, -7.0]), magnitudes, rounding).tolist() == ranks


def test_the_neighbours_of_a_midpoint_are_not_ties() -> None:
    low, high = np.nextafter(12.0, 0), np.nextafter(12.0, 13)
    for rounding in TIES:
        assert nearest(np.array([low, -low, high, -high]), np.array([8, 16]), rounding).tolist() == [0, 0, 1, 1]


def test_ends_saturate_and_ranks_start_as_given() -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, 1e300])

    assert nearest(values, np.array([12, 16, 24]), "half_even", first_rank=1).tolist() == [1, 1, 3, 3, 3]


def test_magnitude_is_exact_at_end_of_int64() -> None:
    values = exact(np.array([-(2**63), 2**63 - 1, -1, 0]), "test")

    assert magnitude(values).tolist() == [2**63, 2**63 - 1, 1, 0]
    assert magnitude(exact(np.array([2**64 - 1], np.uint64), "test")).tolist() == [2**64 - 1]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.float16([1.5]), np.float64),
        (np.float32([1.5]), np.float64),
        (1.5, np.float64),
        (np.int8([-1]), np.int64),
        (np.uint16([1]), np.uint64),
    ],
    ids=str,
)
def test_exact_keeps_every_value(values: Any, dtype: type) -> None:
    assert exact(values, "test").dtype == dtype
    assert np.array_equal(exact(values, "test"), values)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        pytest.param(
            np.array([[1, 2], [3, np.nan]]), Refused, r"test: values\[1, 1\] is nan; values must be", id="nan"
        ),
        pytest.param(np.array([1, -np.inf]), Refused, r"test: values\[1\] is -inf; values must be finite", id="inf"),
        pytest.param(np.array([True]), RefusedType, "got dtype bool", id="bool"),
        pytest.param(np.array([1j]), RefusedType, "got dtype complex128", id="complex"),
        pytest.param(np.array(["1"]), RefusedType, "got dtype <U1", id="text"),
        pytest.param(np.array([2**70]), RefusedType, "got dtype object", id="big"),
        pytest.param(np.zeros(1, np.longdouble), RefusedType, "got dtype (longdouble|float128)", id="longdouble"),
    ],
)
def test_exact_rejects(values: np.ndarray, error: type, message: str) -> None:
    """D-olive-47: NaN and infinity have no code."""
    with pytest.raises(error, match=message):
        exact(values, "test")
