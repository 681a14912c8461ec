"""flint: values by leading zeros."""

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats import FLINT4, Flint

TABLE = {
    0b000: (0, 0),
    0b001: (0, 1),
    0b010: (0, 2),
    0b011: (0, 3),
    0b110: (0, 4),
    0b111: (0, 6),
    0b101: (2, 2),
    0b100: (4, 1),
}  #: code: exponent, integer


def test_codes_mean_the_pairs_of_the_table() -> None:
    """[olive Tbl. 3]; D-olive-16: pairs after ANT's float decoder; negative codes negate the integer."""
    for code, (exponent, integer) in TABLE.items():
        for sign, full in ((1, code), (-1, code | 8)):
            split = [int(part) for part in FLINT4.split(np.array(full))]
            assert split == [exponent, sign * integer]
            assert full == 8 or FLINT4.decode(full) == sign * integer << exponent


def test_values_are_those_of_the_table() -> None:
    """[olive Tbl. 3]: 0, 1, 2, 3, 4, 6, 8, 16 with both signs."""
    positive = [0, 1, 2, 3, 4, 6, 8, 16]

    assert sorted(FLINT4.decode(FLINT4.codes()).tolist()) == [*(-v for v in positive[:0:-1]), *positive]
    assert (FLINT4.largest, FLINT4.identifier, len(FLINT4.codes())) == (16, 8, 15)


@pytest.mark.parametrize(
    ("width", "magnitudes"),
    [
        (3, [0, 1, 2, 4]),
        (5, [*range(8), 8, 10, 12, 14, 16, 24, 32, 64]),
        (6, [*range(16), *range(16, 32, 2), *range(32, 64, 8), 64, 96, 128, 256]),
    ],
)
def test_other_widths_follow_the_rule(width: int, magnitudes: list[int]) -> None:
    fmt = Flint(width)

    assert np.unique(np.abs(fmt.decode(fmt.codes()))).tolist() == magnitudes
    assert fmt.largest == magnitudes[-1]


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("half_even", [4, 4, 8, 8, -4, -4, -8, -8]),
        ("half_away", [4, 6, 8, 16, -4, -6, -8, -16]),
        ("half_up", [4, 6, 8, 16, -3, -4, -6, -8]),
        ("half_down", [3, 4, 6, 8, -4, -6, -8, -16]),
    ],
)
def test_ties(rounding: str, expected: list[int]) -> None:
    """D-olive-7: even means even rank among the magnitudes."""
    assert FLINT4.round([3.5, 5, 7, 12, -3.5, -5, -7, -12], rounding).tolist() == expected


def test_what_rounds_to_zero_has_no_sign() -> None:
    """D-olive-17: with its sign, -0.3 would be 1000, the identifier."""
    assert FLINT4.encode([-0.3, -0.49, -0.5, -0.0]).tolist() == [0, 0, 0, 0]
    assert FLINT4.encode([-0.51, 16, 17, -1e9]).tolist() == [0b1001, 0b0100, 0b0100, 0b1100]


def test_codes_are_described_by_sign_flint_and_pair() -> None:
    assert FLINT4.describe(0b1101) == "1 101 = -2 << 2 = -8"
    assert FLINT4.describe(8) == "1 000 = outlier identifier, no value"


@pytest.mark.parametrize("width", [2, 9])
def test_flint_rejects_invalid_inputs(width: int) -> None:
    with pytest.raises(Refused, match=rf"Flint: width must be in \[3, 8\], got {width}"):
        Flint(width)
