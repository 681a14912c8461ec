"""Two's complement integers."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import INT4, INT8, IntFormat
from refemu.formats.nearest import TIES


@pytest.mark.parametrize(("fmt", "largest", "count"), [(INT4, 7, 15), (INT8, 127, 255)], ids=["int4", "int8"])
def test_values_are_those_of_the_table(fmt: IntFormat, largest: int, count: int) -> None:
    """[olive Tbl. 3]: 0 to 7 and 0 to 127 with both signs; 1000 and 10000000 are left to the identifier."""
    assert sorted(fmt.decode(fmt.codes()).tolist()) == list(range(-largest, largest + 1))
    assert (len(fmt.codes()), fmt.largest, fmt.identifier) == (count, largest, largest + 1)
    assert fmt.identifier not in fmt.codes()


@pytest.mark.parametrize("width", range(2, 17))
def test_a_full_format_has_every_code(width: int) -> None:
    fmt = IntFormat(width)
    half = 1 << (width - 1)

    assert np.array_equal(fmt.decode(np.arange(1 << width)), [*range(half), *range(-half, 0)])
    assert fmt.round([-half, -half - 1, half]).tolist() == [-half, -half, half - 1]
    assert np.array_equal(fmt.codes(), np.arange(1 << width))


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("half_even", [0, 2, 2, 6, 0, -2, -2, -6]),
        ("half_away", [1, 2, 3, 7, -1, -2, -3, -7]),
        ("half_up", [1, 2, 3, 7, 0, -1, -2, -6]),
        ("half_down", [0, 1, 2, 6, -1, -2, -3, -7]),
    ],
)
def test_ties(rounding: str, expected: list[int]) -> None:
    """D-olive-7: the paper says nothing about ties; IEEE's rule is the default."""
    assert rounding in TIES
    assert INT4.round([0.5, 1.5, 2.5, 6.5, -0.5, -1.5, -2.5, -6.5], rounding).tolist() == expected


def test_the_sign_of_zero_is_dropped() -> None:
    assert INT4.encode([-0.0, -0.3, 0.0]).tolist() == [0, 0, 0]


def test_the_identifier_is_described_as_no_value() -> None:
    assert INT4.describe(8) == "1000 = outlier identifier, no value"
    assert IntFormat(4).describe(8) == "1000 = -8"
    assert INT4.describe(13) == "1101 = -3"


@pytest.mark.parametrize(
    ("width", "error", "message"),
    [
        pytest.param(1, Refused, r"IntFormat: width must be in \[2, 16\], got 1", id="narrow"),
        pytest.param(17, Refused, r"IntFormat: width must be in \[2, 16\], got 17", id="wide"),
        pytest.param(4.0, RefusedType, "IntFormat: width must be an int, got 4.0", id="float"),
        pytest.param(True, RefusedType, "IntFormat: width must be an int, got True", id="bool"),
    ],
)
def test_integer_rejects_invalid_inputs(width: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        IntFormat(width)
